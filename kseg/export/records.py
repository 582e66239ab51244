"""Reads the records of a part of a segment as chunks of columns.

The records are those that a consumer sees: no control records, none from batches with a wrong checksum. Every range
skipped because of damage is reported. Runs of frames are decoded mostly in the kernel, many batches a call; threads
decode ahead without the GIL, each with buffers of its own, and the chunks are returned in order. A thread takes chunks
up to a size limit; the rest is decoded when its turn comes, so that memory does not depend on the compression ratio.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kseg.export.chunk import Chunk, Chunks
from kseg.formats.codec_libraries import expansion_buffer
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, LEGACY_FLAGS, MAGIC_V2, V2_FLAGS
from kseg.kernel.layout.rows import BATCH_WIDTH, DONE, FRAME_WIDTH, HEADER_WIDTH, MORE_HEADERS
from kseg.kernel.records import columns as kernel
from kseg.kernel.records.columns import HeaderOffsets, keep_key
from kseg.limits import MAX_HEADERS
from kseg.runtime.threads import Future, Threads
from kseg.segment.batches import RecordBatch
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.items import READABLE_CODES, Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import OffsetStop, seek_offset, seek_time
from kseg.segment.slices import Slice, runs_of
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.source import Source
from kseg.stores.windows import Buffers

_MAX_HEADER_INT64S = MAX_HEADERS * HEADER_WIDTH

ALL_TIMES = (-(1 << 63), (1 << 63) - 1)
"""The earliest and the latest timestamp in ms."""


class LeftOut(NamedTuple):
    """A range whose records, or some of them, cannot be read: damage, or a batch with the problem ``code``."""

    code: str
    position: int
    length: int
    message: str


ReportLeftOut = Callable[[LeftOut], None]


class Wanted(NamedTuple):
    """The requested records. Ranges are inclusive, times are in ms. Records without a timestamp match no range of
    times.

    ``transactions`` of the whole partition hide the records that a read_committed consumer does not see. ``key``: only
    records with this key.
    """

    first_offset: int = -(1 << 63)
    last_offset: int = LAST_OFFSET
    earliest_ms: int = ALL_TIMES[0]
    latest_ms: int = ALL_TIMES[1]
    transactions: Transactions | None = None
    key: bytes | None = None

    @property
    def is_all(self) -> bool:
        return self == Wanted()


class ColumnDecoder:
    """Fills ``chunks`` with the records of runs. ``report`` is called for each skipped range, in order.

    ``wanted``: its transactions are ignored. ``uses_headers``: offsets are enough, and most come from batch headers.
    """

    def __init__(
        self, reader: SegmentReader, scratch: Scratch, chunks: Chunks, report: ReportLeftOut, wanted: Wanted
    ) -> None:
        self._reader, self._scratch, self._chunks, self._report = reader, scratch, chunks, report
        self._is_all, self._key = wanted.is_all, wanted.key
        self._wanted = int64s(kernel.WANTED_WIDTH)
        self._wanted[kernel.WANTED_FIRST], self._wanted[kernel.WANTED_LAST] = wanted[:2]
        self._wanted[kernel.WANTED_EARLIEST], self._wanted[kernel.WANTED_LATEST] = wanted[2:4]
        self._expansion = expansion_buffer(scratch.max_batch_bytes)
        self.uses_headers = (
            chunks.needs_no_records and self._key is None and wanted[2:4] == ALL_TIMES and not reader.is_07
        )

    def rest(self) -> Iterator[Chunk]:
        """Yields the last chunk."""
        yield from self._chunks.rest()

    def all_of(self, run: Run) -> Iterator[Chunk]:
        """Yields the chunks of the frames of a run alone."""
        yield from self.take(run)
        yield from self.rest()

    def take(self, run: Run) -> Iterator[Chunk]:
        """Yields the chunks that the frames of a run fill."""
        if self.uses_headers:
            yield from self.take_headers(self._reader.headers(run), run.count)
        else:
            yield from self._records(run)

    def _records(self, run: Run) -> Iterator[Chunk]:
        first = 0
        while first < run.count and self._reader.is_07:
            yield from self._batch(run, first)
            first += 1
        while first < run.count:
            buffer, frames, _, stop = self._reader.window(run, first)
            yield from self._frames(run, buffer, frames, first, stop)
            first = stop

    def take_headers(self, headers: memoryview, count: int) -> Iterator[Chunk]:
        """Yields the chunks that batches fill whose headers are known (BATCH_*), if the chunks need no records.

        Only batches whose headers do not give the offsets are read.
        """
        offsets = HeaderOffsets(self._scratch.max_batch_bytes)
        while True:
            yield from self._chunks.add_offsets(offsets, headers, count, self._wanted)
            given = offsets.next_given(headers, count)
            if given > offsets.batch:
                yield from self._records(_frames_of(headers, offsets.batch, given))
            if given >= count:
                return
            offsets.batch = given

    def _frames(self, run: Run, buffer: memoryview, frames: memoryview, first: int, stop: int) -> Iterator[Chunk]:
        """Decodes plain frames of a run in the kernel, and the others one by one."""
        collector, scratch = kernel.Collector(first), self._scratch
        while True:
            status = collector.collect(
                buffer, frames, stop, self._wanted, scratch.rows, scratch.headers, self._expansion
            )
            if collector.row_count:
                payload = self._expansion.view() if collector.is_expanded else buffer
                yield from self._rows(Rows(payload, scratch.rows, scratch.headers, collector.row_count))
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

    def _rows(self, rows: Rows) -> Iterator[Chunk]:
        if not self._is_all:
            self._keep(rows)
        yield from self._chunks.add(rows)

    def _keep(self, rows: Rows) -> None:
        rows.count = kernel.keep(rows.rows, rows.count, self._wanted)
        if self._key is not None:
            rows.count = keep_key(rows.payload, rows.rows, rows.count, self._key)

    def _batch(self, run: Run, i: int) -> Iterator[Chunk]:
        """Decodes one batch, or reports it."""
        batch = self._reader.batch(run, i, keep=False, scratch=self._scratch, shared=self._expansion)
        if not batch.is_valid:
            for problem in batch.problems:
                self._report(LeftOut(problem.code, batch.position, batch.size, problem.message))
            return
        if batch.is_control:
            return
        wrong = 0
        try:
            for rows in batch.rows():
                if isinstance(batch, RecordBatch):
                    kernel.stamp(rows.rows, rows.count, 1 + batch.header.is_log_append_time)
                wrong += kernel.count_invalid(rows.rows, rows.count)
                self._keep(rows)
                yield from self._chunks.add(rows)
        except UndecodableError as error:
            self._report(LeftOut(error.problem, batch.position, batch.size, str(error)))
        for problem in batch.passed():
            if problem.code not in READABLE_CODES:
                self._report(LeftOut(problem.code, batch.position, batch.size, problem.message))
        if wrong:
            text = f"{wrong} messages inside have a wrong checksum"
            self._report(LeftOut("inner-crc-mismatch", batch.position, batch.size, text))


def _frames_of(headers: memoryview, first: int, stop: int) -> Run:
    """Returns the frames of batches by their headers, whose first columns are those of frames."""
    rows = int64s((stop - first) * FRAME_WIDTH)
    for column in range(FRAME_WIDTH):
        rows[column::FRAME_WIDTH] = headers[first * BATCH_WIDTH + column : stop * BATCH_WIDTH : BATCH_WIDTH]
    return Run(rows, stop - first)


AHEAD_BYTES = 2 << 20
"""Size of the chunks that a thread takes from a task ahead."""
RUN_BYTES = 2 << 20
"""Size of a run (`SegmentReader`): large enough that the overhead of a task is small."""


class Sized(Protocol):
    """Decoded records of ``size`` bytes."""

    @property
    def size(self) -> int: ...


D = TypeVar("D")
C = TypeVar("C", bound=Sized)

Items = Generator[C | LeftOut, None, None]


class _Slot(Generic[D, C]):
    """A decoder, and the ranges that it has skipped since its last chunk."""

    def __init__(self, make: Callable[[ReportLeftOut], D]) -> None:
        self._left_out: list[LeftOut] = []
        self._decoder = make(self._left_out.append)

    def items(self, read: Callable[[D], Iterator[C]]) -> Items[C]:
        for chunk in read(self._decoder):
            yield from self._take_left_out()
            yield chunk
        yield from self._take_left_out()

    def _take_left_out(self) -> Iterator[LeftOut]:
        pending = self._left_out.copy()
        self._left_out.clear()
        yield from pending


_Task: TypeAlias = "tuple[_Slot[D, C] | None, ReportLeftOut, Items[C], Future[list[C | LeftOut]] | None]"


class ChunkPrefetcher(Generic[D, C]):
    """Yields the chunks of all tasks in order, and reports skipped ranges in their place.

    ``make``: creates a decoder that reports to the given function. Use it as a context manager, in which all that the
    tasks read stays open.
    """

    def __init__(self, jobs: int, make: Callable[[ReportLeftOut], D]) -> None:
        self._threads: Threads[None] = Threads(jobs, lambda: None)
        self._make = make
        self._free: list[_Slot[D, C]] = []
        self._made, self._max_decoders = 0, jobs + 1
        self._pending: deque[_Task[D, C]] = deque()

    def __enter__(self) -> "ChunkPrefetcher[D, C]":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()
        for _slot, _report, items, _outcome in self._pending:
            items.close()

    def leave_out(self, left_out: LeftOut, report: ReportLeftOut) -> None:
        """Reports a range that needs no decoder."""
        self._pending.append((None, report, (each for each in (left_out,)), None))

    def take(self, read: Callable[[D], Iterator[C]], report: ReportLeftOut) -> Iterator[C]:
        """Adds a task for a decoder. Yields the finished chunks. ``report`` is called for the ranges that it skips."""
        while not self._free and self._made == self._max_decoders:
            yield from self._first()
        if not self._free:
            self._free.append(_Slot(self._make))
            self._made += 1
        slot = self._free.pop()
        items = slot.items(read)
        self._pending.append((slot, report, items, self._threads.begin(lambda _: _read_ahead(items))))

    def rest(self) -> Iterator[C]:
        """Yields all remaining chunks."""
        while self._pending:
            yield from self._first()

    def _first(self) -> Iterator[C]:
        slot, report, items, outcome = self._pending.popleft()
        for found in (() if outcome is None else outcome.result(), items):
            for item in found:
                if isinstance(item, LeftOut):
                    report(item)
                else:
                    yield item
        if slot is not None:
            self._free.append(slot)


def _read_ahead(items: Items[C]) -> list[C | LeftOut]:
    """Returns the next items, until their chunks have `AHEAD_BYTES`."""
    found: list[C | LeftOut] = []
    held = 0
    for item in items:
        found.append(item)
        held += 0 if isinstance(item, LeftOut) else item.size
        if held >= AHEAD_BYTES:
            break
    return found


_HEAD_BYTES = V2_FLAGS + 1
"""Bytes of a batch up to its codec, which is in the lowest byte of the attributes."""


class RecordColumns:
    """Iterates over the chunks of one part of a segment. ``report`` is called for each skipped range, in order.

    With several ``jobs``, threads decode compressed batches, and chunks are smaller.
    """

    def __init__(
        self,
        reader: SegmentReader,
        file: SegmentFile,
        chunks: Chunks,
        report: ReportLeftOut,
        wanted: Wanted = Wanted(),  # noqa: B008 - it cannot be changed
        part: Slice = Slice(),  # noqa: B008
        jobs: int = 1,
    ) -> None:
        self._reader, self._file, self._chunks, self._report = reader, file, chunks, report
        self._part, self._jobs = part, jobs
        stable = None if wanted.transactions is None else wanted.transactions.last_stable_offset
        self._wanted = wanted if stable is None else wanted._replace(last_offset=min(wanted.last_offset, stable - 1))

    def __iter__(self) -> Iterator[Chunk]:
        wanted = self._wanted
        decoder = ColumnDecoder(self._reader, self._reader.scratch, self._chunks, self._report, wanted)
        is_all = wanted.transactions is None and wanted.last_offset == LAST_OFFSET
        if decoder.uses_headers and is_all and self._sought() == Slice():  # every byte of the segment is read
            yield from self._surveyed(decoder)
            return
        if self._jobs > 1 and not decoder.uses_headers:
            yield from self._prefetched(decoder)
            return
        for item in self._items():
            if isinstance(item, LeftOut):
                self._report(item)
            else:
                yield from decoder.take(item)
        yield from decoder.rest()

    def _surveyed(self, decoder: ColumnDecoder) -> Iterator[Chunk]:
        """Yields the chunks of a pass over checksums and headers, which is faster than one over a mapped file."""
        for item in SegmentSurvey(self._reader, FULL, self._jobs, Buffers(self._reader.scratch.max_batch_bytes)):
            if isinstance(item, Damage):
                self._report(LeftOut(*item))
            elif isinstance(item, HeaderRows):
                yield from decoder.take_headers(item.rows, item.count)
        yield from decoder.rest()

    def _prefetched(self, plain: ColumnDecoder) -> Iterator[Chunk]:
        prefetcher: ChunkPrefetcher[ColumnDecoder, Chunk] = ChunkPrefetcher(self._jobs, self._another_decoder)
        with prefetcher:
            for item in self._items():
                if isinstance(item, LeftOut):
                    prefetcher.leave_out(item, self._report)
                elif self._reader.is_07 or begins_compressed(self._reader.source, item.position):
                    yield from plain.rest()
                    yield from prefetcher.take(partial(ColumnDecoder.all_of, run=item.copied()), self._report)
                else:
                    yield from prefetcher.rest()
                    yield from plain.take(item)
            yield from plain.rest()
            yield from prefetcher.rest()

    def _another_decoder(self, report: ReportLeftOut) -> ColumnDecoder:
        scratch = Scratch(self._reader.scratch.max_batch_bytes)
        return ColumnDecoder(self._reader, scratch, self._chunks.another(), report, self._wanted)

    def _items(self) -> Iterator[Run | LeftOut]:
        transactions = self._wanted.transactions
        for item in runs_between(self._reader, self._file, self._sought(), self._wanted.last_offset):
            if isinstance(item, Damage):
                yield LeftOut(*item)
            elif transactions is None:
                yield item
            else:
                yield from self._committed(item, transactions)

    def _sought(self) -> Slice:
        return sought(self._reader, self._file, self._part, self._wanted.first_offset, self._wanted.earliest_ms)

    def _committed(self, run: Run, transactions: Transactions) -> Iterator[Run]:
        """Yields a run without the batches of aborted transactions."""
        first = 0
        for i in transactions.aborted_in(self._reader, run):
            if i > first:
                yield run.part(first, i)
            first = i + 1
        if first < run.count:
            yield run.part(first, run.count)


def sought(reader: SegmentReader, file: SegmentFile, part: Slice, first_offset: int, earliest_ms: int = 0) -> Slice:
    """Returns a part without the bytes that, by the indexes, precede the first offset and the earliest time."""
    start = part.start
    if first_offset > (file.base_offset or 0):
        start = max(start, seek_offset(reader, file, first_offset).position)
    if earliest_ms > 0:
        start = max(start, seek_time(reader, file, earliest_ms).position)
    return part if start == part.start else part._replace(start=start, is_certain=False)


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
