"""The log of a partition as the cleaner sees it: segments, batches and producers, and the range that it would clean."""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from kseg.cleaner.settings import FOREVER_MS, CleanerSettings, settings_for
from kseg.errors import KsegError, UnsupportedError, errors_at, text_of
from kseg.formats import message_set, record_batch, suffixes
from kseg.formats.compression import expansion_buffer
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.kernel import COMPILED
from kseg.kernel.layout import headers as fields
from kseg.kernel.layout import rows as layout
from kseg.kernel.scan import headers
from kseg.kernel.scan.frames import SKIP_CHECKSUMS
from kseg.limits import FRAMES_PER_CALL, MAX_BATCH_BYTES, MAX_ROOT_FILE_BYTES, ROWS_PER_CALL
from kseg.node.log_directory import BrokerState
from kseg.node.server_properties import TOPIC
from kseg.quantities import show_span
from kseg.releases.release import HIGH_WATERMARK, RANGE_END
from kseg.runtime.threads import TASK_BYTES, Pipeline
from kseg.segment.files import METADATA_TOPIC, file_names, segment_file, segments_among, topic_of_place
from kseg.segment.items import HARMLESS_CODES, Message
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import HeaderRows, headers_of, up_to_disk_error
from kseg.segment.writer import LARGEST_DELTA
from kseg.sidefiles.indexes import AbortedTxn, TransactionIndex, last_time_entry
from kseg.sidefiles.problems import SideFileProblem, entries_of, problems_of
from kseg.sidefiles.producer_state import ProducerStateEntry, ProducerStates, read_producer_snapshot
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source, unreadable_error
from kseg.stores.windows import Buffers, Windows


@dataclass(slots=True)
class CleanerSegment:
    """``paths`` and ``sizes`` (in bytes) of the segment's files, by suffix."""

    base_offset: int
    mtime_ns: int
    paths: dict[str, str]
    sizes: dict[str, int] = field(default_factory=dict)
    _aborted: list[AbortedTxn] | None = None

    @property
    def path(self) -> str:
        return self.paths[suffixes.LOG]

    @property
    def size(self) -> int:
        return self.sizes[suffixes.LOG]

    @property
    def mtime_ms(self) -> int:
        return self.mtime_ns // 1_000_000

    def largest_timestamp(self) -> int:
        """In ms: the timestamp of the last time index entry, else the modification time of the .log (LogSegment)."""
        path = self.paths.get(suffixes.TIME_INDEX)
        entry = None if path is None else last_time_entry(path, self.base_offset)
        return self.mtime_ms if entry is None or entry.timestamp < 0 else entry.timestamp

    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions, read once: the file may have been replaced later.

        Raises UnsupportedError if the transaction index is unreadable.
        """
        if self._aborted is None:
            found, path = list[AbortedTxn](), self.paths.get(suffixes.TRANSACTION_INDEX)
            if path is not None:
                with errors_at(path):
                    content = Place(path).read(MAX_ROOT_FILE_BYTES)
                for item in TransactionIndex(content, self.base_offset).items():
                    if isinstance(item, SideFileProblem):
                        raise UnsupportedError(f"{path}: {item.message}; rebuild it with kseg reindex")
                    found.append(item)
            self._aborted = found
        return self._aborted


def read_segments(directory: str) -> list[CleanerSegment]:
    """Returns the segments of a partition by base offset.

    Raises UnsupportedError for logs that cannot be cleaned: segments of 0.7, the cluster metadata log, and a log with
    files of an interrupted operation.
    """
    if topic_of_place(directory) == METADATA_TOPIC:
        raise UnsupportedError(f"{directory}: the cluster metadata log is never compacted; it uses snapshots instead")
    names = file_names(directory)
    left = [name for name in names if name.endswith(suffixes.LEFTOVER_SUFFIXES[1:])]
    if left:
        raise UnsupportedError(f"{directory}: {min(left)} was left by an interrupted operation: run kseg recover first")
    found = []
    for file in segments_among(directory, names):
        if file.is_07:
            raise UnsupportedError(f"{file.path}: segments of 0.7 have no keys")
        if file.kind != suffixes.LOG or file.base_offset is None:
            continue
        beside = ((suffix, Place(file.path).with_ending(suffixes.LOG, suffix)) for suffix in suffixes.SEGMENT_SUFFIXES)
        paths: dict[str, str] = {suffix: path for suffix, path in beside if path.lexists()}
        with errors_at(file.path):
            sizes = {suffix: Place(path).status(follow_symlinks=False).st_size for suffix, path in paths.items()}
            found.append(CleanerSegment(file.base_offset, Place(file.path).status().st_mtime_ns, paths, sizes))
    return found


def segments_between(segments: Sequence[CleanerSegment], start: int, end: int) -> list[CleanerSegment]:
    """Returns the segments that may hold offsets of ``start`` and above, and begin below ``end``
    (LogSegments.values)."""
    if start >= end:
        return []
    first = max(bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1, 0)
    return [segment for segment in segments[first:] if segment.base_offset < end]


def aborted_between(segments: Sequence[CleanerSegment], start: int, upper: int) -> list[AbortedTxn]:
    """Returns the aborted transactions with offsets in [start, upper) (UnifiedLog.collectAbortedTransactions)."""
    found = []
    for segment in segments_between(segments, start, 1 << 63):
        for entry in segment.aborted():
            if entry.last_offset >= start and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found
    return found


def group_segments(
    segments: Sequence[CleanerSegment], end: int, settings: CleanerSettings
) -> list[list[CleanerSegment]]:
    """Groups adjacent segments, oldest first, as long as they fit in one (Cleaner.groupSegmentsBySize).

    ``end`` is the end of the dirty range.
    """
    entry_bytes = {suffixes.INDEX: fields.OFFSET_ENTRY_BYTES, suffixes.TIME_INDEX: fields.TIME_ENTRY_BYTES}
    groups: list[list[CleanerSegment]] = []
    for i, segment in enumerate(segments):
        last_offset = (segments[i + 1].base_offset if i + 1 < len(segments) else end) - 1
        together = [*(groups[-1] if groups else ()), segment]
        index_bytes = max(
            sum(part.sizes.get(suffix, 0) // width * width for part in together)  # whole entries
            for suffix, width in entry_bytes.items()
        )
        if (
            groups
            and sum(part.size for part in together) <= settings.segment_bytes
            and index_bytes <= settings.index_bytes
            and (segment.size == 0 or last_offset - together[0].base_offset <= LARGEST_DELTA)
        ):
            groups[-1] = together
        else:
            groups.append([segment])
    return groups


# Reads a segment for cleaning: windows of checked batches, decompressed, processed in several threads.
#
# The first damage ends the cleaning with an error.


class DamagedError(KsegError):
    """A damaged log is not cleaned: rewriting would give damaged records a valid checksum."""

    exit_status = 1

    def __init__(self, path: str, position: int, problem: str = "no intact batch begins there") -> None:
        super().__init__(f"{path}: damaged at position {position}: {problem}; nothing is cleaned, see kseg verify")


@dataclass(slots=True, eq=False)
class Window(HeaderRows):
    """Whole batches of a segment, with positions relative to ``data``.

    ``data`` starts at file position ``origin``. Both buffers are overwritten when the next window is read.
    """

    data: memoryview
    origin: int
    path: str

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.end - self[0].position

    def batch(self, i: int) -> memoryview:
        return self.data[self[i].position : self[i].end]

    def copy(self) -> "Window":
        """Returns a copy in its own memory."""
        rows = memoryview(bytes(self.rows[: self.count * layout.BATCH_WIDTH])).cast("q")
        return Window(rows, self.count, memoryview(bytes(self.data[: self.end])), self.origin, self.path)

    def damage(self, i: int, problem: str) -> DamagedError:
        """Returns the error for batch i."""
        return DamagedError(self.path, self.origin + self[i].position, problem)


def windows(path: str, buffers: Buffers, skips_checksums: bool = False) -> Iterator[Window]:
    """Yields all batches of a segment in windows. ``skips_checksums``: checksums are not verified.

    Raises DamagedError if a batch is not intact, UnreadableError if the disk cannot read it, and PathError if the file
    cannot be opened.
    """
    with errors_at(path), open_source(path) as source:
        position, last_offset = 0, -1
        while position < source.size:
            scan_options = SKIP_CHECKSUMS if skips_checksums else 0
            found = Windows(source.extent, position, source.size, scan_options, buffers=buffers)
            for data, frames, count, origin in up_to_disk_error(found):
                rows = buffers.int64s("batches", FRAMES_PER_CALL * layout.BATCH_WIDTH)
                headers.read(data, frames, count, False, 0, rows)
                window = Window(rows, count, data, origin, path)
                last_offset = _last_offset(window, last_offset)
                yield window
            position = found.position
            if position < source.size:
                window = _single_batch(source, position)
                last_offset = _last_offset(window, last_offset)
                yield window
                position += len(window.data)


def _last_offset(window: Window, before: int) -> int:
    """Returns the window's last offset. Raises DamagedError if offsets do not rise: cleaning depends on their order."""
    for i, (first, last) in enumerate(zip(window.firsts, window.lasts, strict=True)):
        if not before < (last if first < 0 else first) <= last:  # a compressed message does not store its first
            raise window.damage(i, "offsets do not rise")
        before = last
    return int(before)


def _single_batch(source: Source, position: int) -> Window:
    """Reads the intact batch at a position where a pass in windows ended: because the batch is larger than a window, or
    the disk failed. Raises DamagedError if it is not intact, UnreadableError if the disk fails again.

    Only the window refers to its bytes, so that they are freed before the rest of the segment is read.
    """
    for _ in range(2):  # a disk may give at the second attempt what it did not give at the first
        reader = SegmentReader(source, scratch=Scratch())
        if (run := reader.frame_at(position)) is not None:
            data = memoryview(reader.batch(run, 0).data)
            return Window(headers_of(data, [(0, len(data))]).rows, 1, data, position, source.path)
        source.look_for_unreadable()
    if source.unreadable:
        raise unreadable_error(source.path, source.unreadable)
    raise DamagedError(source.path, position)


class RecordBuffers:
    """Reused buffers of one thread: rows, key hashes, key offsets and survivor flags of a batch, and its output."""

    def __init__(self, out_bytes: int) -> None:
        self.scratch = Scratch()
        self.expansion = expansion_buffer(MAX_BATCH_BYTES)
        self.out = bytearray(out_bytes)
        self.widen(2 * ROWS_PER_CALL)

    def widen(self, records: int) -> None:
        """Enlarges the buffers for a batch of ``records`` records."""
        self.rows = int64s(records * layout.ROW_WIDTH)
        self.hashes, self.offsets = int64s(2 * records), int64s(records)
        self.keep = bytearray(records)


def open_batch(window: Window, i: int, buffers: RecordBuffers) -> bytes | memoryview | Message:
    """Returns the records of a v2 batch, or a v0 or v1 message, that the kernel leaves to Python: gzip, snappy, and all
    that it fails to decompress. Raises DamagedError."""
    if window[i].magic < fields.MAGIC_V2:
        return open_message(window, i, buffers)
    records = open_records(window, i, buffers)
    if problems := record_batch.survey_records(records, 0, record_batch.parse_header(window.batch(i)))[0]:
        raise window.damage(i, problems[0][1])
    return records


def open_records(window: Window, i: int, buffers: RecordBuffers) -> bytes | memoryview:
    """Returns the decompressed records of v2 batch i. Raises DamagedError."""
    data = window.batch(i)
    try:
        payload, start = record_batch.open_records(
            data, record_batch.parse_header(data), buffers.scratch.max_batch_bytes
        )
    except UndecodableError as error:
        raise window.damage(i, str(error)) from error
    return memoryview(payload)[start:]


def open_message(window: Window, i: int, buffers: RecordBuffers) -> Message:
    """Returns message i (v0 or v1). Raises DamagedError if an inner message is not intact."""
    data = window.batch(i)
    message = Message(data, 0, len(data), data[fields.ENTRY_MAGIC], True, buffers.scratch)
    if problems := [problem for problem in message.check() if problem.code not in HARMLESS_CODES]:
        raise window.damage(i, problems[0].message)
    return message


OUT_BYTES = 2 << 20
LARGE_BYTES = 4 << 20
"""A window of at least this size, such as one large batch, is processed alone to bound memory."""

T = TypeVar("T")


class CleaningThreads:
    """Processes windows in several threads, and yields the results in order; kernel and codecs release the GIL.

    ``buffers``: those of each thread.
    """

    def __init__(self, jobs: int) -> None:
        jobs = jobs if COMPILED else 1
        self.buffers = [RecordBuffers(OUT_BYTES) for _ in range(jobs)]
        self._idle: SimpleQueue[RecordBuffers] = SimpleQueue()
        for buffers in self.buffers:
            self._idle.put(buffers)
        self._pipeline = Pipeline(jobs)

    def each(
        self,
        path: str,
        buffers: Buffers,
        prepare: Callable[[Window], Callable[[RecordBuffers, Window], T]],
        advance: Callable[[int], None],
    ) -> Iterator[T]:
        """Yields the results for the windows of a segment, in order. Raises as `windows` does.

        ``prepare`` is called in order for each window, and returns the work to be done for it in any thread;
        ``advance`` gets the numbers of bytes read.
        """
        for window in windows(path, buffers):
            work = prepare(window)
            if len(self.buffers) == 1 or window.size >= LARGE_BYTES:
                yield from self.drain()
                yield self._done(window, work)
            else:
                task = partial(self._done, window.copy(), work)
                yield from chain.from_iterable(self._pipeline.submit(task, TASK_BYTES))
            advance(window.size)
        yield from self.drain()

    def drain(self) -> Iterator[T]:
        """Yields all remaining results."""
        yield from chain.from_iterable(self._pipeline.drain())

    def discard(self) -> None:
        """Waits for running work, whose results and errors do not matter any more."""
        self._pipeline.discard()

    def _done(self, window: Window, work: Callable[[RecordBuffers, Window], T]) -> T:
        buffers = self._idle.get()
        try:
            return work(buffers, window)
        finally:
            self._idle.put(buffers)

    def close(self) -> None:
        """Waits for running work; cancels the rest."""
        self._pipeline.__exit__()


class CleanedTransactions:
    """The state of transactions, which tells aborted data and removable markers (CleanedTransactionMetadata).

    It follows the batches in order, over all segments of a round. The .txnindex files of the source segments give the
    aborted transactions. ``kept`` collects the entries of the new .txnindex; callers take them at the end of each
    segment.
    """

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        self._queue: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self._added = 0

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Adds aborted transactions with data in the following batches."""
        for transaction in aborted:
            heapq.heappush(self._queue, (transaction.first_offset, self._added, transaction))
            self._added += 1

    def discardable(self, headers: HeaderRows) -> list[int]:
        """Judges the next batches: 1 if a batch's records are aborted, or if it is a removable marker, else 0.

        A marker is removable if no data of its transaction is left. An empty list stands for all zeros.
        """
        attributes = headers.attributes
        if not any(found & (fields.TRANSACTIONAL | fields.CONTROL) for found in attributes):
            return []
        columns = attributes, headers.lasts, headers.producer_ids, headers.markers, headers.records
        return [int(self._is_discardable(*row)) for row in zip(*columns, strict=True)]

    def _is_discardable(self, attributes: int, last_offset: int, producer: int, marker: int, records: int) -> bool:
        if not attributes & (fields.TRANSACTIONAL | fields.CONTROL):
            return False
        while self._queue and self._queue[0][0] <= last_offset:
            transaction = heapq.heappop(self._queue)[2]
            if transaction.producer_id not in self._aborted:
                self._aborted[transaction.producer_id] = transaction
                self._observed.discard(transaction.producer_id)
        if attributes & fields.CONTROL:
            return self._end(producer, marker, records)
        is_aborted = producer in self._aborted
        (self._observed if is_aborted else self._committed).add(producer)
        return is_aborted

    def _end(self, producer: int, marker: int, count: int) -> bool:
        """Ends a transaction. Returns whether its marker is removable."""
        if count == 0:
            return True
        if marker == ABORT:
            transaction = self._aborted.pop(producer, None)
            if transaction is None or producer not in self._observed:
                return True
            self._observed.discard(producer)
            self.kept.append(transaction)
        elif marker == COMMIT and producer not in self._committed:
            return True
        elif marker == COMMIT:
            self._committed.discard(producer)
        return False


def as_verdicts(numbers: list[int], count: int) -> memoryview:
    """Converts numbers to the int64 column that the kernel takes."""
    return memoryview(array("q", numbers or [0] * max(count, 1)))


@dataclass(frozen=True, slots=True)
class Trace:
    """The headers of a segment that later ones need, so that segments can be cleaned independently.

    `CleanedTransactions` follows the batches of a whole log. Between two markers of a producer only its first and last
    batch can change the transaction state. Following only these and the markers gives the same state at the start of a
    segment as following all batches before it.

    ``last_offset``: -1 for an empty segment. ``rows``: BATCH_* rows of the batches that affect transactions, as bytes.
    """

    last_offset: int
    rows: bytes = b""

    def follow(self, transactions: CleanedTransactions) -> None:
        """Advances the transaction state to the end of the segment."""
        if self.rows:
            rows = memoryview(self.rows).cast("q")
            transactions.discardable(HeaderRows(rows, len(rows) // layout.BATCH_WIDTH))


def read_trace(path: str, buffers: Buffers) -> Trace:
    """Reads the trace of one segment without verifying checksums. Raises DamagedError, PathError."""
    last_offset = -1
    kept: list[tuple[int, bytes] | None] = []
    # By producer, its latest batch since the first one after a marker; None if that is the first itself.
    latest: dict[int, tuple[int, bytes] | None] = {}
    for window in windows(path, buffers, skips_checksums=True):
        last_offset = window[-1].last_offset
        for i, found in enumerate(window.attributes):
            if not found & (fields.TRANSACTIONAL | fields.CONTROL):
                continue
            producer, row = window[i].producer_id, (window[i].last_offset, window.part(i, i + 1).rows.tobytes())
            if found & fields.CONTROL:
                kept += [latest.pop(producer, None), row]
            elif producer in latest:
                latest[producer] = row
            else:
                latest[producer] = None
                kept.append(row)
    rows = sorted(row for row in (*kept, *latest.values()) if row is not None)
    return Trace(last_offset, b"".join(row for _, row in rows))


@dataclass(slots=True)
class Producers:
    """The producer state that a broker uses when it cleans a log (UnifiedLog.lastRecordsOfActiveProducers, KIP-360).

    ``end_offset`` of the log; ``first_unstable``: first offset of the oldest open transaction, None if none is open.
    ``last_offsets``: producer id by the last offset of its last data batch. ``last_epochs``: epoch by producer id, for
    producers that have only markers.
    """

    end_offset: int
    first_unstable: int | None = None
    last_offsets: dict[int, int] = field(default_factory=dict)
    last_epochs: dict[int, int] = field(default_factory=dict)

    def last_batches(self, headers: HeaderRows) -> list[int]:
        """Indexes of batches that are a producer's last one; their headers are kept for the next sequence number."""
        if not self.last_offsets and not self.last_epochs:
            return []
        found = []
        for i, (offset, producer) in enumerate(zip(headers.lasts, headers.producer_ids, strict=True)):
            if producer < 0:
                continue
            if offset in self.last_offsets:
                found += [i] * (self.last_offsets[offset] == producer)
            elif producer in self.last_epochs and headers[i].attributes & fields.CONTROL:
                found += [i] * (self.last_epochs[producer] == headers[i].producer_epoch)
        return found


def read_producers(
    directory: str, segments: Sequence[CleanerSegment], now_ms: int, expiration_ms: int, buffers: Buffers
) -> Producers:
    """Reads the producer state: the newest snapshot, and the batches after it (ProducerStateManager). Raises
    DamagedError if the log is not intact up to its end."""
    entries, start = _newest_snapshot(directory)
    states, end = ProducerStates(entries), segments[-1].base_offset
    for segment in segments_between(segments, start, 1 << 63):
        for window in windows(segment.path, buffers):
            end = window[-1].last_offset + 1
            first = 0
            if window[0].last_offset < start:
                first = next((i for i, offset in enumerate(window.lasts) if offset >= start), window.count)
            states.replay(window.rows, window.count, first)
    return producers_of(states, end, now_ms, expiration_ms)


def producers_of(states: ProducerStates, end: int, now_ms: int, expiration_ms: int) -> Producers:
    """Returns the producers at the end of a log that have not expired, and those of open transactions."""
    found = Producers(end)
    for entry in states.entries():
        if entry.current_txn_first_offset < 0 and now_ms - entry.timestamp >= expiration_ms:
            continue
        if entry.has_batch:
            found.last_offsets[entry.last_offset] = entry.producer_id
        else:
            found.last_epochs[entry.producer_id] = entry.producer_epoch
    found.first_unstable = next((ongoing.first_offset for ongoing in states.ongoing()), None)
    return found


def _newest_snapshot(directory: str) -> tuple[list[ProducerStateEntry], int]:
    """Returns the entries and offset of the newest readable snapshot; no entries and 0 if there is none."""
    files = (segment_file(Place(directory) / name) for name in file_names(directory))
    snapshots = [file for file in files if file.kind == suffixes.SNAPSHOT and not file.leftover]
    found = [(file.base_offset, file.path) for file in snapshots if file.base_offset is not None]
    for offset, path in sorted(found, reverse=True):
        with errors_at(path):
            if Place(path).size() > MAX_ROOT_FILE_BYTES:
                continue
            items = list(read_producer_snapshot(Place(path).read(MAX_ROOT_FILE_BYTES)))
        if not problems_of(items):
            return entries_of(items), offset
    return [], 0


ACTIVE, TRANSACTION, WATERMARK, LAG, RATIO, DAMAGE, RECORD_SIZE = (
    "active-segment", "open-transaction", "high-watermark", "min-compaction-lag", "dirty-ratio", "damage",
    "record-size",
)  # fmt: skip


class Stop(NamedTuple):
    """A reason why offsets are not cleaned. ``code``: one of the above; ``short``: a few words for a table."""

    code: str
    short: str
    text: str


@dataclass(slots=True)
class CleanableRange:
    """The dirty offsets [start, end) of a log (LogCleanerManager, LogToClean).

    Offsets below the checkpoint are clean. Whole segments are cleaned, up to the one that holds the first uncleanable
    offset: ``end`` is the base offset of a segment or the log end offset.

    ``ratio``: the dirty share of the bytes that a round would read. ``is_due``: whether the cleaner would clean it now.
    ``stops``: the reasons why it, or the range after it, is not cleaned. ``kept_end``: the batch that ends before this
    offset is kept as an empty one if it loses its records; None for no such batch.
    """

    start: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    ratio: float
    is_due: bool
    stops: list[Stop] = field(default_factory=list)
    kept_end: int | None = None


_OPEN = TRANSACTION, "open transaction at", "an open transaction begins there"
_UNREPLICATED = WATERMARK, "high watermark", "above the high watermark: replicas may not have it"


def cleanable_range(
    segments: Sequence[CleanerSegment], known: BrokerState, producers: Producers, settings: CleanerSettings
) -> CleanableRange:
    """Returns the range of a log that has at least one segment. ``known``: the offsets of its checkpoints count."""
    start, log_end = max(known.log_start_offset or 0, segments[0].base_offset), producers.end_offset
    if known.cleaner_offset is not None and start <= known.cleaner_offset <= log_end:
        start = known.cleaner_offset
    # The first offset that is unstable, and what makes it so.
    last_stable, (code, short, why) = log_end, _OPEN
    if settings.heeds_high_watermark and known.high_watermark is not None and known.high_watermark < last_stable:
        last_stable, (code, short, why) = known.high_watermark, _UNREPLICATED
    if producers.first_unstable is not None and producers.first_unstable < last_stable:
        last_stable, (code, short, why) = producers.first_unstable, _OPEN
    inactive = list(segments) if settings.includes_active else list(segments[:-1])
    active_base = log_end if settings.includes_active else segments[-1].base_offset
    dirty = [s for s in segments_between(segments, start, 1 << 63) if s.base_offset < active_base]
    uncleanable, stops = active_base, []
    if active_base <= start < log_end:
        text = f"offsets from {start} on are in the active segment, which is not cleaned (--include-active)"
        stops.append(Stop(ACTIVE, "segment roll", text))
    if last_stable < uncleanable:
        uncleanable = last_stable
        stops.append(Stop(code, f"{short} {uncleanable}", f"offset {uncleanable} and above: {why}"))
    if settings.min_lag_ms > 0:
        for segment in dirty:
            largest = segment.largest_timestamp()
            if largest > settings.now_ms - settings.min_lag_ms:
                if segment.base_offset < uncleanable:
                    uncleanable = segment.base_offset
                    age_ms, least = settings.now_ms - largest, show_span(settings.min_lag_ms)
                    age = f"{show_span(age_ms)} {'old' if age_ms >= 0 else 'in the future'}"
                    text = f"segment {uncleanable}: its newest record is {age}, min.compaction.lag.ms is {least}"
                    stops.append(Stop(LAG, f"min.compaction.lag.ms {least}", text))
                break
    uncleanable = max(start, uncleanable)
    end = next((s.base_offset for s in segments_between(inactive, uncleanable, 1 << 63)), active_base)
    if uncleanable >= active_base:
        end = active_base
    clean_bytes = sum(s.size for s in segments_between(segments, -1, start))
    dirty_bytes = sum(s.size for s in segments_between(segments, min(start, end), end))
    total = clean_bytes + dirty_bytes
    found = CleanableRange(start, end, clean_bytes, dirty_bytes, dirty_bytes / total if total else 0.0, False, stops)
    if settings.kept_end == HIGH_WATERMARK:
        found.kept_end = log_end if known.high_watermark is None else min(known.high_watermark, log_end)
    elif settings.kept_end == RANGE_END:
        found.kept_end = end
    _judge(found, dirty, settings)
    return found


def _judge(found: CleanableRange, dirty: Sequence[CleanerSegment], settings: CleanerSettings) -> None:
    """Decides whether cleaning is due: dirty enough, or too old (LogCleanerManager.grabFilthiestCompactedLog)."""
    if found.dirty_bytes + found.clean_bytes == 0 or (found.end <= found.start and found.dirty_bytes == 0):
        return
    oldest_ms = None
    if found.dirty_bytes and settings.max_lag_ms < FOREVER_MS:
        oldest_ms = min((stamp for stamp in map(_first_timestamp, dirty) if stamp > 0), default=None)
    is_late = oldest_ms is not None and oldest_ms < settings.now_ms - settings.max_lag_ms
    found.is_due = found.ratio > settings.min_ratio or is_late
    if not found.is_due and found.dirty_bytes:
        least = f"{settings.min_ratio:.0%}"
        text = f"{found.ratio:.0%} of the log is dirty, not above {least} (--min-cleanable-ratio)"
        if oldest_ms is not None:
            left_ms = oldest_ms + settings.max_lag_ms - settings.now_ms
            text += f"; max.compaction.lag.ms makes it due in {show_span(left_ms)}"
        found.stops.append(Stop(RATIO, f"dirty {found.ratio:.0%} of {least}", text))


def _first_timestamp(segment: CleanerSegment) -> int:
    """Returns the largest timestamp of the first batch, in ms; -1 if there is none."""
    with Place(segment.path).open() as stream:
        head = stream.read(record_batch.HEADER_BYTES)
    if len(head) < message_set.MIN_BYTES:
        return -1
    if head[fields.ENTRY_MAGIC] >= fields.MAGIC_V2:
        return record_batch.parse_header(head).max_timestamp if len(head) == record_batch.HEADER_BYTES else -1
    return message_set.parse_header(head).timestamp


_MESSAGE_BYTES = (14, 22)
"""Bytes of a message of v0 and v1 besides its key and value, after its offset and size."""


class LargeRecord(NamedTuple):
    """A record above max.decompressed.message.bytes, at which a broker gives up cleaning a partition.

    ``segment``: the base offset of its segment; ``last_offset``: that of its batch; ``is_dirty``: it is read before
    anything is cleaned.
    """

    segment: int
    last_offset: int
    size: int
    is_dirty: bool


def large_record(
    segments: Sequence[CleanerSegment], found: CleanableRange, limit_bytes: int, buffers: Buffers
) -> LargeRecord | None:
    """Returns the record that ends a round: the first of the dirty part, else the first of all that is cleaned.

    Only records of compressed batches count. Raises DamagedError, OSError. Source: DefaultRecord.readFrom,
    AbstractLegacyRecordBatch and Cleaner of 4.4.
    """
    transactions, first, opened = CleanedTransactions(), None, RecordBuffers(0)
    with_aborted = [segment for segment in segments if suffixes.TRANSACTION_INDEX in segment.paths]
    transactions.add(aborted_between(with_aborted, 0, found.end))
    for segment in segments_between(segments, 0, found.end):
        for window in windows(segment.path, buffers):
            skipped = transactions.discardable(window)
            for i, last_offset in enumerate(window.lasts):
                is_dirty = last_offset >= found.start
                if (skipped and skipped[i]) or (first and not is_dirty):
                    continue
                size = next((size for size in _record_sizes(window, i, limit_bytes, opened) if size > limit_bytes), 0)
                if size:
                    first = LargeRecord(segment.base_offset, last_offset, size, is_dirty)
                    if is_dirty:
                        return first
    return first


def _record_sizes(window: Window, i: int, limit_bytes: int, buffers: RecordBuffers) -> Iterator[int]:
    """Yields the sizes of the records in batch i; none if it is not compressed or too small for a large record."""
    if not window[i].attributes & fields.CODEC:
        return
    magic = window[i].magic
    if magic < fields.MAGIC_V2:
        for found in open_message(window, i, buffers).rows():
            for at in range(0, found.count * layout.ROW_WIDTH, layout.ROW_WIDTH):
                sizes = found.rows[at + layout.ROW_KEY_SIZE], found.rows[at + layout.ROW_VALUE_SIZE]
                yield _MESSAGE_BYTES[magic] + sum(max(size, 0) for size in sizes)
        return
    payload = open_records(window, i, buffers)
    at, end = 0, len(payload)
    while end > limit_bytes and at < end and (found := layout.varint(payload, at, end)):
        size = found >> layout.VARINT_VALUE_SHIFT
        yield size
        at += (found & layout.VARINT_LENGTH_MASK) + max(size, 0)


UNKNOWN = "unknown"


class Backlog(NamedTuple):
    """The backlog of the cleaner in a partition (LogCleanerManager).

    ``ratio``: the dirty share of the bytes that a round would read; ``is_due``: whether a round would begin now.
    ``stops``: the reasons why the partition, or its last part, is not cleaned. The first four fields are None if the
    log cannot be read.
    """

    clean_bytes: int | None
    dirty_bytes: int | None
    ratio: float | None
    is_due: bool | None
    stops: tuple[Stop, ...] = ()

    @property
    def short(self) -> str:
        """A short text for a table."""
        waits = [stop.short for stop in self.stops if stop.code != ACTIVE]
        if self.is_due:
            waits.insert(0, f"due, dirty {self.ratio:.0%}")
        if not waits:
            waits = [stop.short for stop in self.stops] or ["clean"]
        return "; ".join(waits)

    def as_object(self) -> dict[str, Any]:
        """Returns the backlog as JSON."""
        return {
            "state": self.short,
            "cleanBytes": self.clean_bytes,
            "dirtyBytes": self.dirty_bytes,
            "dirtyRatio": None if self.ratio is None else round(self.ratio, 4),
            "isDue": self.is_due,
            "waitsFor": [{"code": stop.code, "message": stop.text} for stop in self.stops],
        }


def backlog_of(
    directory: str, broker: BrokerState, now_ms: int, damaged: str = "", producers: Producers | None = None
) -> Backlog | None:
    """Returns None unless the partition is known to be compacted.

    ``damaged``: the damage that stops the cleaner, "" if none is known; ``producers``: their state at the end of the
    log, if known.
    """
    if not broker.is_compacted and broker.cleaner_offset is None:
        return None
    try:
        segments = read_segments(directory)
        if not segments:
            return Backlog(0, 0, 0.0, False)
        own = broker.cleaner_settings or {}
        settings, _ = settings_for(CleanerSettings(now_ms), {}, lambda name: (own.get(name), TOPIC))
        expiration_ms = settings.producer_expiration_ms
        producers = producers or read_producers(directory, segments, now_ms, expiration_ms, Buffers())
        found = cleanable_range(segments, broker, producers, settings)
    except (KsegError, OSError) as error:
        code, short = (DAMAGE, "damaged") if isinstance(error, DamagedError) else (UNKNOWN, UNKNOWN)
        return Backlog(None, None, None, None, (Stop(code, short, text_of(error)),))
    stops, is_due = tuple(found.stops), found.is_due
    if damaged:
        text = f"brokers give up cleaning this partition: {damaged}"
        stops, is_due = (Stop(DAMAGE, f"uncleanable: {damaged}", text),), False
    return Backlog(found.clean_bytes, found.dirty_bytes, found.ratio, is_due, stops)
