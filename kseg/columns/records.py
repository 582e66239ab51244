"""The records of a part of a segment as chunks of columns: most in the kernel, many batches a call.

Records are those that a consumer sees: no control records, none of batches whose checksum is wrong. What is left out
for damage is told, never silent.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple

from kseg.columns.chunk import Chunk, Chunks
from kseg.formats.libzstd import room
from kseg.formats.rows import Rows, UndecodableError, int64s
from kseg.kernel import columns as kernel
from kseg.kernel.laying import lay_open
from kseg.kernel.native import FRAME_WIDTH, HEADER_WIDTH
from kseg.limits import FRAMES_PER_CALL, MAX_HEADERS
from kseg.segment.batches import RecordBatch
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.seek import seek_offset
from kseg.segment.slices import Slice, runs_of

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_MOST_HEADERS = MAX_HEADERS * HEADER_WIDTH

_Left = Callable[[int], Generator[Chunk, None, int]]


class LeftOut(NamedTuple):
    """Bytes whose records, or some of them, cannot be had: damage, or a batch with the problem ``code``."""

    code: str
    position: int
    length: int
    message: str


class Wanted(NamedTuple):
    """Records asked for; ranges include both ends, times are ms. Records without a timestamp are in no range of times.

    ``transactions``, of the whole partition, hide what a consumer that reads committed data does not see.
    """

    first_offset: int = _SMALLEST
    last_offset: int = LAST_OFFSET
    earliest_ms: int = _SMALLEST
    latest_ms: int = _LARGEST
    transactions: Transactions | None = None

    @property
    def is_all(self) -> bool:
        return self == Wanted()


class RecordColumns:
    """Reads one part of a segment; iterating yields chunks. ``tell`` is called with what is left out, in order."""

    def __init__(
        self,
        reader: SegmentReader,
        file: SegmentFile,
        chunks: Chunks,
        tell: Callable[[LeftOut], None],
        wanted: Wanted = Wanted(),  # noqa: B008 - it cannot be changed
        part: Slice = Slice(),  # noqa: B008
    ) -> None:
        self._reader = reader
        self._file = file
        self._chunks = chunks
        self._tell = tell
        self._part = part
        self._transactions = wanted.transactions
        stable = None if wanted.transactions is None else wanted.transactions.last_stable_offset
        last = wanted.last_offset if stable is None else min(wanted.last_offset, stable - 1)
        self._first_offset = wanted.first_offset
        self._is_all = wanted.is_all
        self._wanted = int64s(4)
        self._wanted[kernel.FIRST], self._wanted[kernel.LAST] = wanted.first_offset, last
        self._wanted[kernel.EARLIEST], self._wanted[kernel.LATEST] = wanted.earliest_ms, wanted.latest_ms
        self._scratch = reader.scratch
        self._room, self._laying = room(self._scratch.max_batch_bytes), room(self._scratch.max_batch_bytes)
        self._laid = int64s(FRAMES_PER_CALL * FRAME_WIDTH)

    def __iter__(self) -> Iterator[Chunk]:
        for item in runs_of(self._reader, self._file, self._sought()):
            if isinstance(item, Damage):
                self._tell(LeftOut(*item))
            elif self._reader.era_07:
                for i in range(item.count):
                    yield from self._batch(item, i)
            elif self._transactions is None:
                yield from self._run(item)
            else:
                for run in self._committed(item, self._transactions):
                    yield from self._run(run)
        yield from self._chunks.rest()

    def _sought(self) -> Slice:
        """The part without what the index says is before the first offset."""
        if self._first_offset <= (self._file.base_offset or 0):
            return self._part
        start = seek_offset(self._reader, self._file, self._first_offset).position
        return self._part._replace(start=max(start, self._part.start))

    def _committed(self, run: Run, transactions: Transactions) -> Iterator[Run]:
        """A run without the batches of aborted transactions."""
        first = 0
        for i in transactions.aborted_in(self._reader, run):
            if i > first:
                yield run.part(first, i)
            first = i + 1
        if first < run.count:
            yield run.part(first, run.count)

    def _run(self, run: Run) -> Iterator[Chunk]:
        first = 0
        while first < run.count:
            buffer, frames, _, stop = self._reader.window(run, first)
            yield from self._frames(buffer, frames, first, stop, partial(self._left, run, buffer, frames, stop))
            first = stop

    def _frames(self, buffer: memoryview, frames: memoryview, first: int, stop: int, left: _Left) -> Iterator[Chunk]:
        """Those that are plain, and what ``left`` makes of the others."""
        state, scratch = int64s(kernel.STATE_SIZE), self._scratch
        state[0] = first
        while True:
            status = kernel.collect(buffer, frames, stop, self._wanted, scratch.rows, scratch.headers, state)
            if state[3]:
                yield from self._rows(Rows(buffer, scratch.rows, scratch.headers, state[3]))
                state[3] = state[4] = 0
            elif status == kernel.MORE_HEADERS and len(scratch.headers) < state[6] * HEADER_WIDTH <= _MOST_HEADERS:
                scratch.headers = int64s(_MOST_HEADERS)
            elif status == kernel.DONE:
                return
            else:
                taken = 1
                if state[2] == 0:  # else it was plain when it was begun: the file has changed since
                    taken = yield from left(state[0])
                state[0], state[1], state[2] = state[0] + taken, 0, 0

    def _left(
        self, run: Run, buffer: memoryview, frames: memoryview, stop: int, first: int
    ) -> Generator[Chunk, None, int]:
        """Frames of a run from ``first`` on that are not plain; how many."""
        laid = lay_open(buffer, frames, first, stop, self._wanted, self._laying, self._laid)
        if laid:
            yield from self._frames(self._laying.view(), self._laid, 0, laid, lambda i: self._batch(run, first + i))
            return laid
        return (yield from self._batch(run, first))

    def _rows(self, rows: Rows) -> Iterator[Chunk]:
        if not self._is_all:
            rows.count = kernel.keep(rows.rows, rows.count, self._wanted)
        yield from self._chunks.add(rows)

    def _batch(self, run: Run, i: int) -> Generator[Chunk, None, int]:
        """One that the kernel left: compressed, or not as it should be. It is one."""
        batch = self._reader.batch(run, i, keep=False, shared=self._room)
        if not batch.is_valid:
            for problem in batch.problems:
                self._tell(LeftOut(problem.code, batch.position, batch.size, problem.message))
            return 1
        if batch.is_control:
            return 1
        wrong = 0
        try:
            for rows in batch.rows():
                if isinstance(batch, RecordBatch):
                    kernel.stamp(rows.rows, rows.count, 1 + batch.header.is_log_append_time)
                wrong += kernel.count_invalid(rows.rows, rows.count)
                rows.count = kernel.keep(rows.rows, rows.count, self._wanted)
                yield from self._chunks.add(rows)
        except UndecodableError as error:
            self._tell(LeftOut(error.problem, batch.position, batch.size, str(error)))
        if wrong:
            text = f"{wrong} messages inside have a wrong checksum"
            self._tell(LeftOut("inner-crc-mismatch", batch.position, batch.size, text))
        return 1
