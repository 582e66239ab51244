"""Reads the records of a part of a segment as chunks of columns.

The records are those that a consumer sees: no control records, none from batches with a wrong checksum. Every range
skipped because of damage is reported.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kseg.export.chunk import Chunk, Chunks
from kseg.export.decoding import ALL_TIMES, ColumnDecoder, LeftOut, ReportLeftOut
from kseg.export.prefetch import ChunkPrefetcher
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, LEGACY_FLAGS, MAGIC_V2, V2_FLAGS
from kseg.kernel.records import columns as kernel
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import OffsetStop, seek_offset, seek_time
from kseg.segment.slices import Slice, runs_of
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.buffers import Buffers
from kseg.stores.source import Source

_HEAD_BYTES = V2_FLAGS + 1
"""Bytes of a batch up to its codec, which is in the lowest byte of the attributes."""


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
        self._part = part
        self._jobs = jobs
        self._transactions = wanted.transactions
        stable = None if wanted.transactions is None else wanted.transactions.last_stable_offset
        last = wanted.last_offset if stable is None else min(wanted.last_offset, stable - 1)
        self._first_offset, self._last_offset = wanted.first_offset, last
        self._earliest_ms = wanted.earliest_ms
        self._is_all, self._key = wanted.is_all, wanted.key
        self._wanted = int64s(kernel.WANTED_WIDTH)
        self._wanted[kernel.WANTED_FIRST], self._wanted[kernel.WANTED_LAST] = wanted.first_offset, last
        self._wanted[kernel.WANTED_EARLIEST] = wanted.earliest_ms
        self._wanted[kernel.WANTED_LATEST] = wanted.latest_ms

    def __iter__(self) -> Iterator[Chunk]:
        decoder = self._decoder(self._reader.scratch, self._chunks, self._report)
        if decoder.uses_headers and self._is_whole:
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

    @property
    def _is_whole(self) -> bool:
        """Whether every byte of the segment is read, for records of all transactions."""
        return self._transactions is None and self._last_offset == LAST_OFFSET and self._sought() == Slice()

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
                    yield from prefetcher.take(partial(_all_chunks, run=item.copied()), self._report)
                else:
                    yield from prefetcher.rest()
                    yield from plain.take(item)
            yield from plain.rest()
            yield from prefetcher.rest()

    def _another_decoder(self, report: ReportLeftOut) -> ColumnDecoder:
        return self._decoder(Scratch(self._reader.scratch.max_batch_bytes), self._chunks.another(), report)

    def _decoder(self, scratch: Scratch, chunks: Chunks, report: ReportLeftOut) -> ColumnDecoder:
        return ColumnDecoder(self._reader, scratch, chunks, report, self._wanted, self._is_all, self._key)

    def _items(self) -> Iterator[Run | LeftOut]:
        stop = OffsetStop(self._last_offset)
        for item in runs_of(self._reader, self._file, self._sought()):
            if isinstance(item, Damage):
                yield LeftOut(*item)
                continue
            has_end = self._last_offset < LAST_OFFSET
            if has_end and stop.is_behind(self._reader.batch(item, 0, keep=False)):
                return
            if self._transactions is None:
                yield item
            else:
                yield from self._committed(item, self._transactions)
            if has_end and stop.is_behind_end(self._reader, item):
                return

    def _sought(self) -> Slice:
        return sought(self._reader, self._file, self._part, self._first_offset, self._earliest_ms)

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


def _all_chunks(decoder: ColumnDecoder, run: Run) -> Iterator[Chunk]:
    yield from decoder.take(run)
    yield from decoder.rest()


def begins_compressed(source: Source, position: int = 0) -> bool:
    """Whether the batch at a position, not of 0.7, is compressed. Copying plain records is not worth a thread."""
    head = bytes(source.buffer[position : position + _HEAD_BYTES])
    return len(head) == _HEAD_BYTES and bool(head[V2_FLAGS if head[ENTRY_MAGIC] == MAGIC_V2 else LEGACY_FLAGS] & CODEC)
