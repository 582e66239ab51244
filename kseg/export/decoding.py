"""Decodes runs of frames into chunks of columns, mostly in the kernel, many batches a call.

Each decoder has its own buffers, so that several threads can work on one segment.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple

from kseg.export.chunk import Chunk, Chunks
from kseg.formats.codec_libraries import expansion_buffer
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.kernel.codecs.recoding import expand_batches
from kseg.kernel.layout.rows import BATCH_WIDTH, FRAME_WIDTH, HEADER_WIDTH
from kseg.kernel.records import columns as kernel
from kseg.kernel.records.columns import HeaderOffsets, keep_key
from kseg.kernel.records.plain import DONE, MORE_HEADERS
from kseg.limits import FRAMES_PER_CALL, MAX_HEADERS
from kseg.segment.batches import RecordBatch
from kseg.segment.items import READABLE_CODES
from kseg.segment.reader import Run, SegmentReader

_MAX_HEADER_INT64S = MAX_HEADERS * HEADER_WIDTH

ALL_TIMES = (-(1 << 63), (1 << 63) - 1)
"""The earliest and the latest timestamp in ms."""

_DecodeOthers = Callable[[int], Generator[Chunk, None, int]]


class LeftOut(NamedTuple):
    """A range whose records, or some of them, cannot be read: damage, or a batch with the problem ``code``."""

    code: str
    position: int
    length: int
    message: str


ReportLeftOut = Callable[[LeftOut], None]


class ColumnDecoder:
    """Fills ``chunks`` with the records of runs. ``report`` is called for each skipped range, in order.

    ``wanted``: as in `kseg.kernel.records.columns`; ``is_all``: all records are wanted; ``key``: only records with
    this key. ``uses_headers``: offsets are enough, and most come from batch headers.
    """

    def __init__(
        self,
        reader: SegmentReader,
        scratch: Scratch,
        chunks: Chunks,
        report: ReportLeftOut,
        wanted: memoryview,
        is_all: bool,
        key: bytes | None = None,
    ) -> None:
        self._reader, self._scratch, self._chunks, self._report = reader, scratch, chunks, report
        self._wanted, self._is_all, self._key = wanted, is_all, key
        self._batch_expansion, self._run_expansion = (
            expansion_buffer(scratch.max_batch_bytes),
            expansion_buffer(scratch.max_batch_bytes),
        )
        self._expanded_frames = int64s(FRAMES_PER_CALL * FRAME_WIDTH)
        has_time = wanted[kernel.WANTED_EARLIEST] > ALL_TIMES[0] or wanted[kernel.WANTED_LATEST] < ALL_TIMES[1]
        self.uses_headers = chunks.needs_no_records and key is None and not has_time and not reader.is_07

    def rest(self) -> Iterator[Chunk]:
        """Yields the last chunk."""
        yield from self._chunks.rest()

    def take(self, run: Run) -> Iterator[Chunk]:
        """Yields the chunks that the frames of a run fill."""
        if self.uses_headers:
            yield from self.take_headers(self._reader.headers(run), run.count)
        else:
            yield from self._records(run)

    def _records(self, run: Run) -> Iterator[Chunk]:
        first = 0
        while first < run.count and self._reader.is_07:
            first += yield from self._batch(run, first)
        while first < run.count:
            buffer, frames, _, stop = self._reader.window(run, first)
            yield from self._frames(buffer, frames, first, stop, partial(self._others, run, buffer, frames, stop))
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

    def _frames(
        self, buffer: memoryview, frames: memoryview, first: int, stop: int, decode_others: _DecodeOthers
    ) -> Iterator[Chunk]:
        """Decodes uncompressed frames in the kernel, and the others with ``decode_others``."""
        collector, scratch = kernel.Collector(first), self._scratch
        while True:
            status = collector.collect(buffer, frames, stop, self._wanted, scratch.rows, scratch.headers)
            if collector.row_count:
                yield from self._rows(Rows(buffer, scratch.rows, scratch.headers, collector.row_count))
                collector.row_count = collector.header_count = 0
            elif (
                status == MORE_HEADERS and len(scratch.headers) < collector.needed * HEADER_WIDTH <= _MAX_HEADER_INT64S
            ):
                scratch.headers = int64s(_MAX_HEADER_INT64S)
            elif status == DONE:
                return
            else:
                taken = 1
                if collector.position == 0:  # otherwise the file has changed since the run was read
                    taken = yield from decode_others(collector.frame)
                collector.go_to(collector.frame + taken)

    def _others(
        self, run: Run, buffer: memoryview, frames: memoryview, stop: int, first: int
    ) -> Generator[Chunk, None, int]:
        """Decodes compressed or invalid frames of a run from ``first`` on, one or several. Returns their number."""
        expanded = expand_batches(buffer, frames, first, stop, self._wanted, self._run_expansion, self._expanded_frames)
        if expanded:
            view = self._run_expansion.view()
            yield from self._frames(view, self._expanded_frames, 0, expanded, lambda i: self._batch(run, first + i))
            return expanded
        return (yield from self._batch(run, first))

    def _rows(self, rows: Rows) -> Iterator[Chunk]:
        if not self._is_all:
            self._keep(rows)
        yield from self._chunks.add(rows)

    def _keep(self, rows: Rows) -> None:
        rows.count = kernel.keep(rows.rows, rows.count, self._wanted)
        if self._key is not None:
            rows.count = keep_key(rows.payload, rows.rows, rows.count, self._key)

    def _batch(self, run: Run, i: int) -> Generator[Chunk, None, int]:
        """Decodes one batch, or reports it. Returns 1, the number of frames."""
        batch = self._reader.batch(run, i, keep=False, scratch=self._scratch, shared=self._batch_expansion)
        if not batch.is_valid:
            for problem in batch.problems:
                self._report(LeftOut(problem.code, batch.position, batch.size, problem.message))
            return 1
        if batch.is_control:
            return 1
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
        return 1


def _frames_of(headers: memoryview, first: int, stop: int) -> Run:
    """Returns the frames of batches by their headers, whose first columns are those of frames."""
    rows = int64s((stop - first) * FRAME_WIDTH)
    for column in range(FRAME_WIDTH):
        rows[column::FRAME_WIDTH] = headers[first * BATCH_WIDTH + column : stop * BATCH_WIDTH : BATCH_WIDTH]
    return Run(rows, stop - first)
