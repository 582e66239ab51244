"""The logs that are served: offsets, transactions, lookups by offset and time. Each is scanned as far as is asked for.

A scan checks the checksum of each batch once, and keeps no more than ranges of adjacent batches of some 256 KiB. What
is sent are such ranges, as they lie in the file. Methods that may scan are generators: between two steps of at most
STEP_BYTES another client's request may come first. Sources: UnifiedLog, LocalLog and FileRecords of Kafka 4.4.0.
"""

import os
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeVar

from kseg.errors import KsegError, PathError, errors_at, text_of
from kseg.formats.record_batch import HEADER_BYTES, offsets_of
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.kernel.layout import headers as fields
from kseg.kernel.layout import rows as layout
from kseg.kernel.scan.frames import LONG_RUNS, WALK_RECORDS
from kseg.limits import MAX_OFFSET
from kseg.node.log_starts import LogStarts
from kseg.segment.files import SegmentFile, parse_partition_name
from kseg.segment.isolation import Transactions
from kseg.segment.items import Damage, Problem
from kseg.segment.paths import segments_at
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.survey import HeaderRows
from kseg.stores.extent import Extent
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source
from kseg.stores.windows import claimed_bytes

STEP_BYTES = 16 << 20
"""Bytes scanned in one step, but for a single batch or damage."""
RANGE_BYTES = 256 << 10
_FULL_SHARE = 3 / 4
"""An answer of that share of the bytes that a client takes ends where a range does, so that nothing is read for it."""
_WINDOW_BYTES = 64 << 10
_OPEN_SOURCES = 16
_SMALLEST_BATCH = fields.ENTRY_MAGIC + 1

T = TypeVar("T")
Steps = Generator[None, None, T]
"""What may take long, and is done step by step."""


def step(work: Callable[[], T]) -> Steps[T]:
    """Does one thing that may take long, such as reading a file."""
    yield
    return work()


OUT_OF_ORDER = "offset-out-of-order"
NONE, OUT_OF_RANGE = 0, 1
"""Kafka's error codes."""
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
"""Timestamps with a meaning of their own in requests for offsets."""


class FileRange(NamedTuple):
    """Bytes of a segment."""

    path: str
    position: int
    size: int


class Records:
    """The batches of a partition that a fetch is answered with, as ranges of files."""

    __slots__ = ("ranges", "size")

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self.ranges, self.size = ranges, sum(each.size for each in ranges)

    def __len__(self) -> int:
        return self.size


class FetchAnswer(NamedTuple):
    """The answer to a fetch of one partition. ``aborted``: producer ids and first offsets, None if all is read."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: list[tuple[int, int]] | None
    records: Records


class FoundOffset(NamedTuple):
    """The answer to a request for an offset; both -1 if there is none. The timestamp in ms."""

    timestamp: int = -1
    offset: int = -1


class _HeldSource:
    """A source of a tree; the lock is held while it is opened."""

    def __init__(self) -> None:
        self.lock, self.source = threading.Lock(), None  # type: tuple[threading.Lock, Source | None]


class SegmentBytes:
    """Opens segments. Those of archives and stores, which had to be unpacked or fetched, are kept until others need
    the place; the last few that were used stay."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, _HeldSource] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: str) -> Extent:
        """Opens a segment, which the caller closes. Raises PathError, OSError."""
        place = Place(path)
        if place.tree is None:
            with errors_at(path):
                return place.open_extent()
        with self._lock:
            held = self._held.setdefault(path, _HeldSource())
            self._held.move_to_end(path)
            dropped = self._held.popitem(last=False)[1] if len(self._held) > _OPEN_SOURCES else None
        if dropped is not None:
            _close(dropped)
        with held.lock:
            if held.source is None:
                held.source = open_source(place)
            return held.source.extent.again()

    def close(self) -> None:
        """Closes what is kept."""
        with self._lock:
            held, self._held = [*self._held.values()], OrderedDict()
        for each in held:
            _close(each)


def _close(held: _HeldSource) -> None:
    with held.lock:
        if held.source is not None:
            held.source.close()
            held.source = None


_of_thread = threading.local()


def _scratch() -> Scratch:
    """Returns the buffers of this thread."""
    if not hasattr(_of_thread, "scratch"):
        _of_thread.scratch = Scratch()
    found: Scratch = _of_thread.scratch
    return found


class LeftOut(NamedTuple):
    """Bytes of a segment that are not served: a gap in the offsets."""

    path: str
    position: int
    code: str
    message: str


class ServedLog:
    """One partition. ``places``: the directories or files that hold its segments; of the same offsets, those of the
    first are served.

    ``tell`` gets what is left out, and sentences about the partition. ``is_deep``: batches whose records cannot be read
    are left out, at which clients would stop. ``end``: the offset after the last batch found so far;
    ``is_complete``: whether all is scanned.
    """

    def __init__(
        self,
        name: str,
        places: Sequence[str],
        segments: SegmentBytes,
        log_starts: LogStarts,
        tell: Callable[["ServedLog", LeftOut | str], None],
        is_deep: bool = False,
    ) -> None:
        # Without the listings that they share: these are not for several threads.
        found = map(Place, places)
        self.places = [Place(str(each), each.tree, each.inner, each.is_named) for each in found]
        self.name, self._is_deep = name, is_deep
        self.log_start = self.end = 0
        self.is_complete = False
        self._bytes, self._log_starts, self._tell = segments, log_starts, tell
        self._lock = threading.RLock()
        self._files: list[SegmentFile] | None = None
        self._transactions = Transactions()
        self._next_file, self._position, self._batch_before = 0, 0, -1
        self._file_of, self._positions, self._sizes = array("i"), array("q"), array("q")
        self._lasts, self._newest, self._zstd = array("q"), array("q"), bytearray()
        """Ranges of adjacent batches: file, position, size, last offset, largest timestamp, whether one is zstd."""

    # What clients ask.

    def fetch(self, offset: int, max_bytes: int, is_committed: bool, takes_one: bool) -> Steps[FetchAnswer]:
        """Finds the batches from an offset on, at most ``max_bytes``, or one larger batch if ``takes_one``. Reads no
        file and waits for nothing before the first yield. Raises KsegError, OSError."""
        is_patient = False
        while True:
            if self._lock.acquire(is_patient):
                try:
                    found = self._fetched(offset, max_bytes, is_committed, takes_one, is_patient)
                    if found is not None:
                        return found
                    if is_patient:
                        self._scan()
                finally:
                    self._lock.release()
            is_patient = True
            yield

    def _fetched(
        self, offset: int, max_bytes: int, is_committed: bool, takes_one: bool, may_read: bool
    ) -> FetchAnswer | None:
        """Returns the answer to a fetch; None if more has to be scanned, or read, which it must not."""
        if self._files is None and not may_read:
            return None
        if offset < self._opened():
            return self._answer(OUT_OF_RANGE, is_committed)
        i, stable = bisect_left(self._lasts, offset), self._stable if is_committed else MAX_OFFSET
        if i < len(self._lasts) and offset < stable:
            found = self._ranges(i, offset, stable, max_bytes, takes_one, may_read)
            return None if found is None else self._answer(NONE, is_committed, found[0], offset, found[1])
        if not self.is_complete:
            return None
        return self._answer(NONE if offset <= self._high_watermark else OUT_OF_RANGE, is_committed)

    def starts_with_zstd(self, offset: int) -> bool:
        """Whether the range of batches that a fetch from an offset begins with holds one of zstd."""
        i = bisect_left(self._lasts, offset)  # without the lock, as a scan only adds ranges
        return i < len(self._zstd) and bool(self._zstd[i])

    def find_offset(self, timestamp: int, is_committed: bool) -> Steps[FoundOffset]:
        """Finds the first record with a timestamp (ms) or a later one; negative ones are those of ListOffsets. Markers
        are no records. Raises KsegError, OSError."""
        if timestamp in (LATEST, MAX_TIMESTAMP):
            yield from self.complete()
        with self._lock:
            start = self._opened()
            if timestamp in (EARLIEST, EARLIEST_LOCAL):
                return FoundOffset(offset=start)
            if timestamp == LATEST:
                return FoundOffset(offset=self._stable if is_committed else self._high_watermark)
            if timestamp == MAX_TIMESTAMP:
                timestamp = max(self._newest, default=-1)
            if timestamp < 0:
                return FoundOffset()
        i = 0
        while True:
            with self._lock:
                found = None
                while i < len(self._newest) and found is None:
                    if self._newest[i] >= timestamp and self._lasts[i] >= start:
                        found = self._first_at(i, timestamp, start)
                    i += found is None
                if found is not None and (not is_committed or found.offset < self._stable):
                    return found
                if self.is_complete:
                    return FoundOffset()
                self._scan()
            yield

    def complete(self) -> Steps[None]:
        """Scans all of it."""
        while not self.is_complete:
            with self._lock:
                self._opened()
                if not self.is_complete:
                    self._scan()
            yield

    @property
    def directory(self) -> str:
        """The log directory that holds the partition, or its first part."""
        place = str(self.places[0])
        partition = place if parse_partition_name(os.path.basename(place)) else os.path.dirname(place)
        return os.path.dirname(partition) or os.curdir

    def size(self) -> int:
        """Returns the size of the segments in bytes. Raises KsegError, OSError."""
        with self._lock:
            self._opened()
            return sum(Place(file.path).size() for file in self._files or ())

    @property
    def _high_watermark(self) -> int:
        return max(self.end, self.log_start)

    @property
    def _stable(self) -> int:
        """The last stable offset, as far as is scanned."""
        found = self._transactions.last_stable_offset
        return self._high_watermark if found is None else max(found, self.log_start)

    def _answer(
        self, error: int, is_committed: bool, ranges: Sequence[FileRange] = (), first: int = 0, end: int = 0
    ) -> FetchAnswer:
        aborted = self._transactions.aborted_between(first, end) if is_committed else None
        return FetchAnswer(error, self._high_watermark, self._stable, self.log_start, aborted, Records(ranges))

    # The scan. The lock is held.

    def _opened(self) -> int:
        """Lists the segments on first use. Returns the log start offset. Raises KsegError, OSError."""
        if self._files is None:
            found = [file for place in self.places for file in segments_at(place) if file.kind == LOG]
            found.sort(key=lambda file: file.base_offset or 0)
            entries = [self._log_starts.of(place) for place in self.places if Place(place).is_dir()]
            self._files, self.is_complete = found, not found
            first = found[0].base_offset or 0 if found else 0
            self.log_start = max(first, *entries) if entries else first
        return self.log_start

    def _scan(self) -> None:
        """Scans the next STEP_BYTES of a segment. One that cannot be read is a gap, which is told."""
        file = (self._files or [])[self._next_file]
        try:
            is_at_end = self._scan_part(file)
        except (KsegError, OSError) as error:
            self._tell(self, LeftOut(file.path, self._position, "unreadable", text_of(error)))
            is_at_end = True
        if is_at_end:
            self._next_file, self._position, self._batch_before = self._next_file + 1, 0, -1
            if self._next_file == len(self._files or []):
                self._end_scan()

    def _scan_part(self, file: SegmentFile) -> bool:
        with self._reader(file) as reader:
            start = self._position
            if start:
                reader.begin_at(start, self._batch_before)
            for item in reader.runs():
                if isinstance(item, Damage):
                    self._tell(self, LeftOut(file.path, item.position, item.code, item.message))
                else:
                    self._add(file, reader, item)
                    self._batch_before = item.position_before(item.count)
                self._position = item.end
                if item.end - start >= STEP_BYTES:
                    return False
        return True

    def _reader(self, file: SegmentFile) -> SegmentReader:
        extent = self._bytes.open(file.path)
        try:
            options = LONG_RUNS | (WALK_RECORDS if self._is_deep else 0)
            return open_segment(file, _scratch(), source=Source(extent, file.path), scan_options=options)
        except BaseException:
            extent.close()
            raise

    def _end_scan(self) -> None:
        self.is_complete = True
        first = (self._files or [])[0].base_offset or 0
        if self.end and self.log_start > self.end:
            self._tell(self, f"its log start offset {self.log_start} is beyond its end {self.end}, and disregarded")
            self.log_start = first
        if (stable := self._transactions.last_stable_offset) is not None:
            self._tell(self, f"a transaction is open from offset {stable} on: read_committed consumers stop there")

    def _add(self, file: SegmentFile, reader: SegmentReader, run: Run) -> None:
        """Adds the batches of a run whose checksums are right, and whose offsets are not below the end so far."""
        rows, begin = HeaderRows(reader.headers(run), run.count), 0
        needed = layout.CRC_RIGHT | (layout.RECORDS_RIGHT if self._is_deep else 0)
        for i, (first, last, state) in enumerate(zip(rows.firsts, rows.lasts, rows.states, strict=True)):
            problem = None if state & needed == needed else self._problem(reader, run, i, state)
            # A compressed message of old formats does not store its first offset: it is given as -1.
            if problem is None and (last < self.end or -1 < first < self.end):
                problem = Problem(OUT_OF_ORDER, f"a batch below offset {self.end}")
            if problem is None:
                self.end = last + 1
                continue
            if problem.code != OUT_OF_ORDER or len(self.places) == 1:  # a copy of it is in remote storage
                self._tell(self, LeftOut(file.path, rows[i].position, problem.code, problem.message))
            self._take(reader, run.part(begin, i), rows.part(begin, i))
            begin = i + 1
        self._take(reader, run.part(begin, run.count), rows.part(begin, run.count))

    def _problem(self, reader: SegmentReader, run: Run, i: int, state: int) -> Problem | None:
        """Returns the first problem of a frame that the scan has not found valid; None if there is none."""
        if not state & layout.CRC_RIGHT:
            return Problem("crc-mismatch", "a batch with a wrong checksum")
        return next(iter(reader.batch(run, i).check()), None)

    def _take(self, reader: SegmentReader, run: Run, rows: HeaderRows) -> None:
        """Adds adjacent batches that are served, by their headers."""
        if not run.count:
            return
        attributes, stamps = rows.attributes, rows.max_timestamps
        kinds = set(attributes)
        if any(kind & (fields.TRANSACTIONAL | fields.CONTROL) for kind in kinds):
            self._transactions.read_run(reader, run)
            stamps = [stamp for stamp, kind in zip(stamps, attributes, strict=True) if not kind & fields.CONTROL]
        newest, has_zstd = max(stamps, default=-1), any(kind & fields.CODEC == fields.ZSTD for kind in kinds)
        position, size, last = run.position, run.end - run.position, rows[-1].last_offset
        if (
            self._lasts
            and self._file_of[-1] == self._next_file
            and self._positions[-1] + self._sizes[-1] == position
            and self._sizes[-1] + size <= RANGE_BYTES
        ):
            self._sizes[-1] += size
            self._lasts[-1], self._newest[-1] = last, max(self._newest[-1], newest)
            self._zstd[-1] |= has_zstd
            return
        for column, value in (
            (self._file_of, self._next_file), (self._positions, position), (self._sizes, size), (self._lasts, last),
            (self._newest, newest), (self._zstd, has_zstd),
        ):  # fmt: skip
            column.append(value)

    # Lookups. The lock is held.

    def _path(self, i: int) -> str:
        return (self._files or [])[self._file_of[i]].path

    def _headers(self, i: int) -> Iterator[tuple[int, int, int, bytes]]:
        """Yields position, size, last offset and the beginning of each batch of a range. Raises KsegError, OSError."""
        position, end, window, start = self._positions[i], self._positions[i] + self._sizes[i], b"", 0
        with closing(self._bytes.open(self._path(i))) as extent:
            while position < end:
                if position + HEADER_BYTES > start + len(window) and start + len(window) < end:
                    start, window = position, extent.pread(min(_WINDOW_BYTES, end - position), position)
                head = window[position - start : position - start + HEADER_BYTES]
                if len(head) < _SMALLEST_BATCH or (size := claimed_bytes(head)) < _SMALLEST_BATCH:
                    raise PathError(f"{self._path(i)}: was changed while it is served")
                yield position, size, offsets_of(head.ljust(HEADER_BYTES, b"\0"))[1], head
                position += size

    def _ranges(
        self, i: int, offset: int, stable: int, max_bytes: int, takes_one: bool, may_read: bool
    ) -> tuple[list[FileRange], int] | None:
        """Returns the batches from an offset in range i on, below the last stable offset, and the offset after them;
        None if a part of a range has to be found, but nothing may be read."""
        found, left, end = list[FileRange](), max_bytes, offset
        before = self._lasts[i - 1] + 1 if i else self.log_start
        is_within = offset > before
        while i < len(self._lasts) and (left > 0 or takes_one):
            position, size, last = self._positions[i], self._sizes[i], self._lasts[i]
            is_whole = not is_within and last < stable and size <= left
            if not is_whole:
                if left <= max_bytes * (1 - _FULL_SHARE) and not takes_one:
                    break
                if not may_read:
                    return None
                position, size, last = self._part_of(i, offset, stable, left, takes_one)
            if size:
                if found and found[-1].path == self._path(i) and found[-1].position + found[-1].size == position:
                    position, size = found[-1].position, found.pop().size + size
                found.append(FileRange(self._path(i), position, size))
                end, takes_one = last + 1, False
                left = max_bytes - sum(each.size for each in found)
            if not is_whole and not (is_within and last == self._lasts[i]):
                break
            is_within, i = False, i + 1
        return found, end

    def _part_of(self, i: int, offset: int, stable: int, left: int, takes_one: bool) -> tuple[int, int, int]:
        """Returns position, size and last offset of the batches of a range that begin with the one that holds an
        offset, end below the last stable one, and have at most ``left`` bytes."""
        start, end, found = -1, -1, -1
        for position, size, last, _ in self._headers(i):
            if last < offset:
                continue
            first = position if start < 0 else start
            is_too_large = position + size - first > left and not (start < 0 and takes_one)
            if last >= stable or is_too_large:
                break
            start, end, found = first, position + size, last
        return start, max(end - start, 0), found

    def _first_at(self, i: int, timestamp: int, start: int) -> FoundOffset | None:
        """Returns the first record of a range from a timestamp and an offset on; None if there is none."""
        for position, _, last, head in self._headers(i):
            magic, stamp = head[fields.ENTRY_MAGIC], -1
            if magic:
                stamp = layout.be64(head, fields.V2_MAX_TIMESTAMP if magic > 1 else fields.V1_TIMESTAMP)
            if last < start or stamp < timestamp:
                continue
            file = (self._files or [])[self._file_of[i]]
            with self._reader(file) as reader:
                run = reader.frame_at(position)
                batch = None if run is None else reader.batch(run, 0)
                if batch is None or batch.is_control:
                    continue
                for record in batch:
                    if record.offset >= start and record.timestamp is not None and record.timestamp >= timestamp:
                        return FoundOffset(record.timestamp, record.offset)
        return None
