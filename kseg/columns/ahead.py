"""Runs of a segment decoded on threads, as kernel and codecs run without the GIL; what becomes of them keeps its order.

A decoder belongs to one run until all of it is taken. A thread takes pieces from it until they are so many bytes; what
is behind that is decoded when its turn has come, so memory does not depend on what batches expand to.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from kseg.columns.chunk import Chunk
from kseg.columns.decoding import Decoder, LeftOut, Tell
from kseg.formats.rows import int64s
from kseg.kernel.native import FRAME_WIDTH
from kseg.segment.reader import Run
from kseg.segment.threads import Outcome, Threads

AHEAD_BYTES = 2 << 20
RUN_BYTES = 2 << 20
"""Of a run (`SegmentReader`): enough that a task costs little beside what is done in it."""


class Piece(Protocol):
    """A chunk, or what several of them became."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        ...


P = TypeVar("P", bound=Piece)
Becoming = Callable[[Iterator[Chunk]], Iterator[P]]
"""What the chunks of one run become; on any thread, and of several runs at once."""


class _Told(Generic[P]):
    """What one decoder tells, between the pieces where it told it."""

    def __init__(self, make: Callable[[Tell], Decoder], become: Becoming[P]) -> None:
        self._left_out: list[LeftOut] = []
        self._decoder = make(self._left_out.append)
        self._become = become

    def items(self, run: Run) -> Iterator[P | LeftOut]:
        for piece in self._become(self._chunks(run)):
            yield from self._told()
            yield piece
        yield from self._told()

    def _chunks(self, run: Run) -> Iterator[Chunk]:
        yield from self._decoder.take(run)
        yield from self._decoder.rest()

    def _told(self) -> Iterator[LeftOut]:
        told = self._left_out.copy()
        self._left_out.clear()
        yield from told


class Ahead(Generic[P]):
    """Gives what the chunks of all runs taken become, in order, and tells what is left out where it has its place.

    ``make``: a decoder that tells to what it is given. ``most_bytes``: of the pieces that a thread makes of a
    run ahead. To be used as a context manager, while the segment is open.
    """

    def __init__(
        self, jobs: int, make: Callable[[Tell], Decoder], tell: Tell, become: Becoming[P], most_bytes: int | None = None
    ) -> None:
        self._threads: Threads[None] = Threads(jobs, lambda: None)
        self._make, self._tell, self._become = make, tell, become
        self._most_bytes = AHEAD_BYTES if most_bytes is None else most_bytes
        self._free: list[_Told[P]] = []
        self._made, self._most = 0, jobs + 1
        self._pending: deque[tuple[_Told[P] | None, Iterator[P | LeftOut], Outcome[list[P | LeftOut]] | None]] = deque()

    def __enter__(self) -> "Ahead[P]":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()

    def leave_out(self, left_out: LeftOut) -> None:
        """What no decoder needs to look at."""
        self._pending.append((None, iter([left_out]), None))

    def take(self, run: Run) -> Iterator[P]:
        """A run, whose rows its reader may overwrite afterwards; the pieces that are ready."""
        while not self._free and self._made == self._most:
            yield from self._first()
        if not self._free:
            self._free.append(_Told(self._make, self._become))
            self._made += 1
        decoder = self._free.pop()
        rows = int64s(run.count * FRAME_WIDTH)
        rows[:] = run.rows[: run.count * FRAME_WIDTH]
        items = decoder.items(Run(rows, run.count))
        self._pending.append((decoder, items, self._threads.begin(lambda _: _some(items, self._most_bytes))))

    def rest(self) -> Iterator[P]:
        """All that is not given yet."""
        while self._pending:
            yield from self._first()

    def _first(self) -> Iterator[P]:
        decoder, items, outcome = self._pending.popleft()
        for found in (() if outcome is None else outcome.result(), items):
            for item in found:
                if isinstance(item, LeftOut):
                    self._tell(item)
                else:
                    yield item
        if decoder is not None:
            self._free.append(decoder)


def _some(items: Iterator[P | LeftOut], most_bytes: int) -> list[P | LeftOut]:
    found: list[P | LeftOut] = []
    held = 0
    for item in items:
        found.append(item)
        held += 0 if isinstance(item, LeftOut) else item.size
        if held >= most_bytes:
            break
    return found
