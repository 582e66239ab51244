"""Decodes runs of a segment on threads, without the GIL, and returns the chunks in order.

A decoder works on one run until all of its chunks are taken. A thread takes chunks up to a size limit; the rest is
decoded when its turn comes, so that memory does not depend on the compression ratio.
"""

from collections import deque
from collections.abc import Callable, Iterator

from kseg.export.chunk import Chunk
from kseg.export.decoding import Decoder, LeftOut, Tell
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import FRAME_WIDTH
from kseg.runtime.threads import Outcome, Threads
from kseg.segment.reader import Run

AHEAD_BYTES = 2 << 20
RUN_BYTES = 2 << 20
"""Size of a run (`SegmentReader`): large enough that the overhead of a task is small."""


class _Decoded:
    """The chunks of one decoder, and between them the ranges that it skipped."""

    def __init__(self, make: Callable[[Tell], Decoder]) -> None:
        self._left_out: list[LeftOut] = []
        self._decoder = make(self._left_out.append)

    def items(self, run: Run) -> Iterator[Chunk | LeftOut]:
        for chunks in (self._decoder.take(run), self._decoder.rest()):
            for chunk in chunks:
                yield from self._reported()
                yield chunk
        yield from self._reported()

    def _reported(self) -> Iterator[LeftOut]:
        told = self._left_out.copy()
        self._left_out.clear()
        yield from told


class ChunkPrefetcher:
    """Yields the chunks of all runs in order, and reports skipped ranges in their place.

    ``make``: creates a decoder that reports to the given function. Use it as a context manager while the segment is
    open.
    """

    def __init__(self, jobs: int, make: Callable[[Tell], Decoder], tell: Tell) -> None:
        self._threads: Threads[None] = Threads(jobs, lambda: None)
        self._make, self._tell = make, tell
        self._free: list[_Decoded] = []
        self._made, self._most = 0, jobs + 1
        self._pending: deque[
            tuple[_Decoded | None, Iterator[Chunk | LeftOut], Outcome[list[Chunk | LeftOut]] | None]
        ] = deque()

    def __enter__(self) -> "ChunkPrefetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()

    def leave_out(self, left_out: LeftOut) -> None:
        """Reports a range that needs no decoder."""
        self._pending.append((None, iter([left_out]), None))

    def take(self, run: Run) -> Iterator[Chunk]:
        """Adds a run, whose rows the reader may overwrite afterwards. Yields the finished chunks."""
        while not self._free and self._made == self._most:
            yield from self._first()
        if not self._free:
            self._free.append(_Decoded(self._make))
            self._made += 1
        decoder = self._free.pop()
        rows = int64s(run.count * FRAME_WIDTH)
        rows[:] = run.rows[: run.count * FRAME_WIDTH]
        items = decoder.items(Run(rows, run.count))
        self._pending.append((decoder, items, self._threads.begin(lambda _: _some(items))))

    def rest(self) -> Iterator[Chunk]:
        """Yields all remaining chunks."""
        while self._pending:
            yield from self._first()

    def _first(self) -> Iterator[Chunk]:
        decoder, items, outcome = self._pending.popleft()
        for found in (() if outcome is None else outcome.result(), items):
            for item in found:
                if isinstance(item, LeftOut):
                    self._tell(item)
                else:
                    yield item
        if decoder is not None:
            self._free.append(decoder)


def _some(items: Iterator[Chunk | LeftOut]) -> list[Chunk | LeftOut]:
    found: list[Chunk | LeftOut] = []
    held = 0
    for item in items:
        found.append(item)
        held += 0 if isinstance(item, LeftOut) else item.size
        if held >= AHEAD_BYTES:
            break
    return found
