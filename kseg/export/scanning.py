"""Selects the segments of a scan, and reads them as chunks of columns: for Python, Arrow, Spark and ``kseg convert``.

A scan has the records that a consumer sees: no control records, none from batches with a wrong checksum. Every range
skipped because of damage is reported. In a partition directory, snapshots of cluster metadata are skipped, because they
repeat records of the log. Runs of frames are decoded mostly in the kernel, many batches a call. Threads decode large
segments ahead without the GIL, each with buffers of its own; the chunks are returned in order. A thread takes chunks up
to a size limit; the rest is decoded when its turn comes, so that memory does not depend on the compression ratio.
"""

import logging
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from kseg.errors import SelectionWarning, UnsupportedError
from kseg.export.arrow import valid_text
from kseg.export.chunk import Chunk, Chunks
from kseg.export.pushdown import ALL_ROWS, Bounds
from kseg.formats.compression import expansion_buffer
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, LEGACY_FLAGS, MAGIC_V2, V2_FLAGS
from kseg.kernel.layout.rows import CHECK_VALID_SHIFT, DONE, HEADER_WIDTH, MORE_HEADERS, ROW_CHECK, ROW_WIDTH
from kseg.kernel.records import columns as kernel
from kseg.limits import LONG_RUN_BYTES, MAX_BATCH_BYTES, MAX_HEADERS
from kseg.node.log_starts import LogStarts
from kseg.node.paths import expanded
from kseg.node.topics import Warn, check_topics
from kseg.runtime.threads import Future, Threads
from kseg.segment.files import LAST_OFFSET, SegmentFile, between, file_of_place, segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.items import READABLE_CODES, Batch, Damage, RecordBatch
from kseg.segment.paths import live_parts, roots_of, segments_at, warn_of_unread
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.seek import OffsetStop, seek_offset, seek_time
from kseg.segment.slices import Slice, is_worth_parts, runs_of, slices
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.source import STANDARD_INPUT, Source, open_source

if TYPE_CHECKING:
    from kseg.node.remote_partitions import LiveSegment

T = TypeVar("T")

TASK_BYTES = 1 << 18
"""Cost of opening a file, in bytes read."""
_MAX_LOGGED, _MAX_KEPT = 10, 100_000
_MAX_HEADER_INT64S = MAX_HEADERS * HEADER_WIDTH


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """``paths``: segments, partitions and log directories, globs expanded. ``topics``: globs, one of which must match.
    ``partitions``: numbers. Both select everything if None, and nothing if empty. Files without a topic match no topic
    and no partition.

    ``wanted``: ranges of offsets and times, and the key; records without a timestamp match no range of times. With
    ``is_committed``, the transactions of each partition hide the records that a read_committed consumer does not see.
    ``is_live``: a partial batch at the end of a segment is being written and is no damage. ``keys``: for encrypted
    remote storage. ``mode``: that of `kseg.scan`. ``level`` and ``now_ms``: how mode findings verifies; None for the
    present. ``names``: topics that a filter leaves, None for all; they need not be there. ``includes_broken``: records
    of broken batches are read too, as far as they are readable, in chunks of their own; not with ``is_committed``.
    ``ignores_log_start``: deleted records, below the log start offset, are read too.
    """

    paths: tuple[str, ...]
    wanted: Bounds = ALL_ROWS
    topics: tuple[str, ...] | None = None
    partitions: frozenset[int] | None = None
    is_committed: bool = False
    is_live: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES
    keys: PrivateKeys = field(default_factory=PrivateKeys)
    mode: str = "records"
    level: str = "full"
    now_ms: int | None = None
    names: frozenset[str] | None = None
    includes_broken: bool = False
    ignores_log_start: bool = False

    def within(self, bounds: Bounds) -> Self:
        """Returns the request for the rows within bounds; in other modes by topics and partitions alone."""
        if self.mode != "records":
            bounds = Bounds(topics=bounds.topics, partitions=bounds.partitions)
        bounds &= self.wanted._replace(topics=self.names, partitions=self.partitions)
        if bounds.is_empty:
            return replace(self, partitions=frozenset())
        wanted = bounds._replace(topics=None, partitions=None)
        return replace(self, wanted=wanted, names=bounds.topics, partitions=bounds.partitions)

    def keeps(self, file: SegmentFile) -> bool:
        """Whether the file is in a requested topic and partition."""
        return self.has(file.topic, file.partition)

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a topic and partition are requested."""
        globs = self.topics
        if globs is not None and (topic is None or not any(fnmatchcase(topic, glob) for glob in globs)):
            return False
        if self.names is not None and (topic is None or valid_text(topic) not in self.names):
            return False
        return self.partitions is None or partition in self.partitions


ReportDamage = Callable[[SegmentFile, Damage], None]
"""Gets each range that is skipped because of damage, in order."""


class ScanPart(NamedTuple):
    """A part of a segment. ``transactions``: those of its partition, if only committed records are requested.

    ``offsets``: the range to read of its partition, within that of the request.
    """

    file: SegmentFile
    slice: Slice = Slice()
    transactions: Transactions | None = None
    offsets: Bounds = ALL_ROWS


def parts_of_scan(
    request: ScanRequest, slice_bytes: int | None = None, warn: Warn | None = None
) -> Iterator[tuple[int, ScanPart]]:
    """Yields the parts of all segments that can contain matches, in order, each with its size in bytes.

    ``slice_bytes``: the approximate size of a part; None: a part is a segment, and sizes are 0. ``warn`` is told what
    is left out; None: a SelectionWarning names directories. Raises PathError, or UnsupportedError for a file that is
    not a segment, and as `check_topics`.
    """
    starts = LogStarts(roots_of_scan(request))
    for place in places_of_scan(request, warn or warn_of_selection):
        if Place(place).is_dir() and not request.keeps(segment_file(Place(place) / "0.log")):
            continue
        files = [file for file in readable_segments_at(place) if request.keeps(file)]
        log_start = 0 if request.ignores_log_start or not files else starts.of_file(files[0])
        undeleted = Bounds(log_start) if log_start else ALL_ROWS
        if warn is not None and files and log_start > (files[0].base_offset or 0):
            warn(f"{place}: left out: deleted records, below the log start offset {log_start}")
        # Snapshots of cluster metadata repeat records of the log, and have batches of their own.
        is_partition = [file.path for file in files] != [place] and request.mode != "batches"
        chosen = matching(files, request.wanted & undeleted, is_partition=is_partition)
        transactions = None
        if request.is_committed and chosen:
            transactions = Transactions.of_segments(logs_around(place), Scratch(request.max_batch_bytes))
        for file in chosen:
            live = live_segment_of(file)
            offsets = undeleted if live is None else Bounds(live.log_start)
            if slice_bytes is None:
                yield 0, ScanPart(file, Slice(), transactions, offsets)
                continue
            with open_source(file.path) as source:
                total = source.size
            for part in slices(total, slice_bytes) if file.kind == LOG else [Slice()]:
                yield (part.end or total) - part.start, ScanPart(file, part, transactions, offsets)


def roots_of_scan(request: ScanRequest) -> Iterator[str]:
    """Yields the paths, archives and what stands for a node replaced by what is in them. Raises PathError."""
    return chain.from_iterable(map(roots_of, expanded(request.paths)))


def warn_of_selection(text: str) -> None:
    """Warns by SelectionWarning."""
    warnings.warn(text, SelectionWarning, stacklevel=3)


def places_of_scan(request: ScanRequest, warn: Warn = warn_of_selection) -> Iterable[str]:
    """Returns the partitions and files at the paths. Raises PathError, and as `check_topics`.

    Directories that a broker has moved or deleted are left out, with a warning, unless they are paths.
    """
    places = _live_places(request, warn)
    if request.topics is not None:
        places = list(places)
        check_topics(places, request.topics)
    return places


def _live_places(request: ScanRequest, warn: Warn) -> Iterable[str]:
    for root in roots_of_scan(request):
        places, moved = live_parts(root)
        moved = [place for place in moved if request.keeps(file_of_place(place))]
        warn_of_unread(moved, request.paths, warn)
        yield from places


def live_segment_of(file: SegmentFile) -> "LiveSegment | None":
    """Returns the segment of remote storage at the file's path; None for other files."""
    if Place(file.path).tree is None:
        return None
    from kseg.node.remote_partitions import live_segment_at  # few read remote storage

    return live_segment_at(file.path)


def logs_around(place: str) -> list[SegmentFile]:
    """Returns the .log files of the whole partition, even if ``place`` is one of its segments."""
    files = segments_at(place)
    if [file.path for file in files] == [place] and place != STANDARD_INPUT:
        files = segments_at(Place(place).absolute.parent)
    return [file for file in files if file.kind == LOG]


def readable_segments_at(place: str) -> list[SegmentFile]:
    """Returns the segments of a file or partition directory. Raises UnsupportedError if one is not a segment."""
    files = segments_at(place)
    for file in files:
        if file.is_packed:
            raise UnsupportedError(f"{file.path}: is not packed, whatever its suffix says: give it another name")
        if file.kind and not file.is_segment:
            raise UnsupportedError(f"{file.path}: {file.kind} files hold no records")
    return files


def matching(files: list[SegmentFile], wanted: Bounds, is_partition: bool) -> list[SegmentFile]:
    """Returns the segments whose names allow wanted offsets; ``is_partition``: they are those of a directory."""
    if is_partition:
        files = [file for file in files if file.kind != CHECKPOINT]
    return between(files, wanted.first_offset, wanted.last_offset) if len(files) > 1 else files


def overflow_text(count: int) -> str:
    """Returns a warning of timestamps that became null."""
    are = "1 timestamp is" if count == 1 else f"{count} timestamps are"
    return f"{are} null here: outside of the years -290308 to 294247, which a column of microseconds holds"


class DamageLog:
    """Keeps the ranges that a reader skips because of damage, and logs each once, up to ten of each segment.

    ``ranges``: at most _MAX_KEPT of them, in the order in which they were met.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.ranges: dict[tuple[SegmentFile, Damage], None] = {}
        self._reported: Counter[str] = Counter()

    def __call__(self, file: SegmentFile, left_out: Damage) -> None:
        if (file, left_out) in self.ranges or len(self.ranges) >= _MAX_KEPT:
            return
        self.ranges[file, left_out] = None
        self._reported[file.path] += 1
        if self._reported[file.path] <= _MAX_LOGGED:
            more = "; there may be more" if self._reported[file.path] == _MAX_LOGGED else ""
            self._logger.warning("left out: %s%s", damage_text(file, left_out), more)


def damage_text(file: SegmentFile, left_out: Damage) -> str:
    """Returns a damaged range as text."""
    return f"{file.path}: position {left_out.position}: {left_out.code}: {left_out.message}"


def grouped(parts: Iterable[tuple[int, T]], limit: int) -> list[Sequence[T]]:
    """Groups consecutive parts, each with its size, to about ``limit`` bytes. Each group is a task.

    The last part of a group may go beyond the limit by up to half of its own size, so that segments a little larger
    than a half or a third of the limit are still read together.
    """
    groups: list[list[T]] = []
    left = 0
    for size, part in parts:
        cost = size + TASK_BYTES
        if not groups or cost // 2 > left:
            groups.append([])
            left = limit
        groups[-1].append(part)
        left -= cost
    return list(groups)


Items = Generator[Chunk | Damage, None, None]
"""Chunks, and the skipped ranges in their place."""


class ColumnDecoder:
    """Fills ``chunks`` with the records of runs.

    ``wanted``: of several keys none is looked for. ``uses_headers``: offsets are enough, and most come from batch
    headers. ``includes_broken``: the readable records of broken batches become chunks of their own.
    """

    def __init__(
        self, reader: SegmentReader, scratch: Scratch, chunks: Chunks, wanted: Bounds, includes_broken: bool = False
    ) -> None:
        self._reader, self._scratch, self._chunks = reader, scratch, chunks
        self._includes_broken = includes_broken
        self._key = min(wanted.keys) if wanted.keys is not None and len(wanted.keys) == 1 else None
        self._is_all = wanted[:4] == ALL_ROWS[:4] and self._key is None
        self._wanted = wanted.columns
        self._expansion = expansion_buffer(scratch.max_batch_bytes)
        self.uses_headers = (
            not includes_broken
            and chunks.needs_no_records
            and self._key is None
            and wanted[2:4] == ALL_ROWS[2:4]
            and not reader.is_07
        )

    def whole(self, run: Run) -> Items:
        """Yields all of a run, and the last chunk."""
        yield from self.take(run)
        yield from self._chunks.rest()

    def take(self, run: Run) -> Items:
        """Yields the chunks that the frames of a run fill. If the chunks need no records, only batches are read whose
        headers do not give the offsets.
        """
        if not self.uses_headers:
            yield from self._records(run)
            return
        headers, offsets = self._reader.headers(run), kernel.HeaderOffsets(self._scratch.max_batch_bytes)
        while True:
            yield from self._chunks.add_offsets(offsets, headers, run.count, self._wanted)
            given = offsets.next_given(headers, run.count)
            if given > offsets.batch:
                yield from self._records(run.part(offsets.batch, given))
            if given >= run.count:
                return
            offsets.batch = given

    def _records(self, run: Run) -> Items:
        first = 0
        while first < run.count and self._reader.is_07:
            yield from self._batch(run, first)
            first += 1
        while first < run.count:
            buffer, frames, _, stop = self._reader.window(run, first)
            yield from self._frames(run, buffer, frames, first, stop)
            first = stop

    def _frames(self, run: Run, buffer: memoryview, frames: memoryview, first: int, stop: int) -> Items:
        """Decodes plain frames of a run in the kernel, and the others one by one."""
        collector, scratch = kernel.Collector(first), self._scratch
        while True:
            status = collector.collect(
                buffer, frames, stop, self._wanted, scratch.rows, scratch.headers, self._expansion
            )
            if collector.row_count:
                payload = self._expansion.view() if collector.is_expanded else buffer
                rows = Rows(payload, scratch.rows, scratch.headers, collector.row_count)
                if not self._is_all:
                    self._keep(rows)
                yield from self._chunks.add(rows)
                collector.row_count = collector.header_count = 0
            elif (
                status == MORE_HEADERS and len(scratch.headers) < collector.needed * HEADER_WIDTH <= _MAX_HEADER_INT64S
            ):
                scratch.headers = int64s(_MAX_HEADER_INT64S)
            elif status == DONE:
                return
            else:
                if not collector.is_open:  # otherwise the file has changed since the run was read
                    yield from self._batch(run, collector.frame)
                collector.go_to(collector.frame + 1)

    def _keep(self, rows: Rows) -> None:
        rows.count = kernel.keep(rows.rows, rows.count, self._wanted)
        if self._key is not None:
            rows.count = kernel.keep_key(rows.payload, rows.rows, rows.count, self._key)

    def _batch(self, run: Run, i: int) -> Items:
        """Decodes one batch."""
        batch = self._reader.batch(run, i, keep=False, scratch=self._scratch, shared=self._expansion)
        is_broken = self._includes_broken and is_unproven(batch)
        if is_broken:
            yield from self.broken(batch)
        if not batch.is_valid:
            for problem in batch.problems:
                yield Damage(problem.code, batch.position, batch.size, problem.message)
            return
        if batch.is_control:
            return
        wrong = 0
        try:
            for rows in batch.rows():
                if is_broken:
                    continue  # up to the fault, which is reported
                if isinstance(batch, RecordBatch):
                    kernel.stamp(rows.rows, rows.count, 1 + batch.header.is_log_append_time)
                wrong += kernel.count_invalid(rows.rows, rows.count)
                self._keep(rows)
                yield from self._chunks.add(rows)
        except UndecodableError as error:
            yield Damage(error.problem, batch.position, batch.size, str(error))
        for problem in batch.passed():
            if problem.code not in READABLE_CODES:
                yield Damage(problem.code, batch.position, batch.size, problem.message)
        if wrong:
            text = f"{wrong} messages inside have a wrong checksum"
            yield Damage("inner-crc-mismatch", batch.position, batch.size, text)

    def broken(self, batch: Batch) -> Items:
        """Yields the readable records of a broken batch, in chunks of their own."""
        yield from self._chunks.rest()
        with suppress(UndecodableError):
            for rows in () if batch.is_control else batch.rows_before_fault():
                if isinstance(batch, RecordBatch):
                    kernel.stamp(rows.rows, rows.count, 1 + batch.header.is_log_append_time)
                for at in range(ROW_CHECK, rows.count * ROW_WIDTH, ROW_WIDTH):
                    rows.rows[at] |= 1 << CHECK_VALID_SHIFT  # of a message, its checksum
                self._keep(rows)
                for chunk in self._chunks.add(rows):
                    chunk.is_proven = False
                    yield chunk
        for chunk in self._chunks.rest():
            chunk.is_proven = False
            yield chunk


def is_unproven(batch: Batch) -> bool:
    """Whether the records of a batch are unproven: its checksum is wrong, or they cannot be decoded."""
    return not batch.is_valid or any(problem.code == "undecodable-records" for problem in batch.check())


AHEAD_BYTES = 2 << 20
"""Size of the chunks that a thread takes from a task ahead."""
RUN_BYTES = 2 << 20
"""Size of a run (`SegmentReader`): large enough that the overhead of a task is small."""


class _Prefetcher:
    """Decodes runs on threads, with decoders that ``make`` creates. Yields their items in order.

    The segment must stay open until `close` has returned.
    """

    def __init__(self, jobs: int, make: Callable[[], ColumnDecoder]) -> None:
        self._threads, self._make = Threads(jobs), make
        self._free: list[ColumnDecoder | None] = [None] * (jobs + 1)
        """Decoders without a task; None: it is made when it is needed."""
        self._pending: deque[tuple[ColumnDecoder | None, Items, Future[list[Chunk | Damage]] | None]] = deque()

    def close(self) -> None:
        """Waits for running tasks, drops waiting ones, and closes the decoders' generators."""
        self._threads.close()
        for _decoder, items, _outcome in self._pending:
            items.close()

    def leave_out(self, left_out: Damage) -> None:
        """Adds a range that needs no decoder."""
        self._pending.append((None, (each for each in (left_out,)), None))

    def take(self, run: Run) -> Items:
        """Adds a run, whose rows must not change. Yields the finished items."""
        while not self._free:
            yield from self._first()
        decoder = self._free.pop() or self._make()
        items = decoder.whole(run)
        self._pending.append((decoder, items, self._threads.begin(partial(_read_ahead, items))))

    def rest(self) -> Items:
        """Yields all remaining items."""
        while self._pending:
            yield from self._first()

    def _first(self) -> Items:
        decoder, items, outcome = self._pending.popleft()
        yield from () if outcome is None else outcome.result()
        yield from items
        if decoder is not None:
            self._free.append(decoder)


_HEAD_BYTES = V2_FLAGS + 1
"""Bytes of a batch up to its codec, which is in the lowest byte of the attributes."""


def _read_ahead(items: Items) -> list[Chunk | Damage]:
    """Returns the next items, until their chunks have `AHEAD_BYTES`."""
    found: list[Chunk | Damage] = []
    held = 0
    for item in items:
        found.append(item)
        held += 0 if isinstance(item, Damage) else item.size
        if held >= AHEAD_BYTES:
            break
    return found


class PartReader:
    """Reads parts of a scan. ``report`` is called for each range skipped because of damage, in order.

    ``chunks``: the settings of each part's chunks. ``jobs``: threads for a large segment.
    """

    def __init__(self, request: ScanRequest, chunks: Chunks, report: ReportDamage, jobs: int = 1) -> None:
        self._request, self._chunks, self._report, self._jobs = request, chunks, report, jobs
        self._scratch = Scratch(request.max_batch_bytes)

    def chunks_of(self, parts: Iterable[ScanPart]) -> Iterator[tuple[ScanPart, Chunk]]:
        """Yields the chunks of all parts in order, each with its part."""
        for part in parts:
            for chunk in self.chunks(part):
                yield part, chunk

    def chunks(self, part: ScanPart, source: Source | None = None) -> Iterator[Chunk]:
        """Yields the chunks of a part. ``source``: its segment, if it is open already."""
        file, request = part.file, self._request
        wanted = request.wanted & part.offsets
        if part.transactions is not None and part.transactions.last_stable_offset is not None:
            wanted &= Bounds(last_offset=part.transactions.last_stable_offset - 1)
        with open_source(file.path) if source is None else nullcontext(source) as opened:
            jobs = self._jobs if is_worth_parts(opened.size, self._jobs) else 1
            run_bytes = LONG_RUN_BYTES if jobs == 1 else RUN_BYTES
            reader = open_segment(file, self._scratch, source=opened, live=request.is_live, run_bytes=run_bytes)
            with closing(self._items(part, reader, wanted, jobs)) as items:
                for item in items:
                    if isinstance(item, Damage):
                        self._report(file, item)
                    else:
                        yield item

    def _items(self, part: ScanPart, reader: SegmentReader, wanted: Bounds, jobs: int) -> Items:
        """Yields chunks and damage. With several ``jobs``, threads decode compressed batches in smaller chunks."""
        includes_broken, chunks = self._request.includes_broken, self._chunks.another()
        plain = ColumnDecoder(reader, self._scratch, chunks, wanted, includes_broken)
        is_ahead = jobs > 1 and not plain.uses_headers

        def another() -> ColumnDecoder:
            return ColumnDecoder(
                reader, Scratch(self._request.max_batch_bytes), chunks.another(), wanted, includes_broken
            )

        with closing(_Prefetcher(jobs, another)) as prefetcher:
            for run in _visible_runs(part, reader, wanted):
                if isinstance(run, Damage) and includes_broken:
                    yield from prefetcher.rest()
                    yield run
                    if part.transactions is None and (batch := reader.broken_batch(run)) is not None:
                        yield from plain.broken(batch)
                elif isinstance(run, Damage) and is_ahead:
                    prefetcher.leave_out(run)
                elif isinstance(run, Damage):
                    yield run
                elif is_ahead and (reader.is_07 or begins_compressed(reader.source, run.position)):
                    yield from chunks.rest()
                    yield from prefetcher.take(run.copied())
                else:
                    yield from prefetcher.rest()
                    yield from plain.take(run)
            yield from chunks.rest()
            yield from prefetcher.rest()


def _visible_runs(part: ScanPart, reader: SegmentReader, wanted: Bounds) -> Iterator[Run | Damage]:
    """Yields the items of a part without the batches of aborted transactions."""
    between = sought(reader, part.file, part.slice, wanted.first_offset, wanted.earliest_ms)
    for item in runs_between(reader, part.file, between, wanted.last_offset):
        if part.transactions is None or isinstance(item, Damage):
            yield item
            continue
        first = 0
        for i in chain(part.transactions.aborted_in(reader, item), [item.count]):
            if i > first:
                yield item.part(first, i)
            first = i + 1


def sought(reader: SegmentReader, file: SegmentFile, part: Slice, first_offset: int, earliest_ms: int = 0) -> Slice:
    """Returns a part without the bytes that, by the indexes, precede the first offset and the earliest time."""
    start = part.start
    if first_offset > (file.base_offset or 0):
        start = max(start, seek_offset(reader, file, first_offset).position)
    if earliest_ms > 0:
        start = max(start, seek_time(reader, file, earliest_ms).position)
    return part._replace(start=start)


def runs_between(reader: SegmentReader, file: SegmentFile, part: Slice, last_offset: int) -> Iterator[Run | Damage]:
    """Yields the items of a part up to those behind the last offset."""
    stop = OffsetStop(last_offset)
    for item in runs_of(reader, file, part):
        if last_offset == LAST_OFFSET or isinstance(item, Damage):
            yield item
            continue
        if stop.is_behind(reader.batch(item, 0, keep=False)):
            return
        yield item
        if stop.is_behind_end(reader, item):
            return


def begins_compressed(source: Source, position: int = 0) -> bool:
    """Whether the batch at a position, not of 0.7, is compressed. Copying plain records is not worth a thread."""
    head = bytes(source.buffer[position : position + _HEAD_BYTES])
    return len(head) == _HEAD_BYTES and bool(head[V2_FLAGS if head[ENTRY_MAGIC] == MAGIC_V2 else LEGACY_FLAGS] & CODEC)
