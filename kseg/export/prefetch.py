"""Decodes segments on threads, without the GIL, and returns the chunks in order.

A decoder works on one task, a run of a large segment or a whole small one, until all of its chunks are taken. A thread
takes chunks up to a size limit; the rest is decoded when its turn comes, so that memory does not depend on the
compression ratio.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, Protocol, TypeVar

from kseg.export.decoding import LeftOut, ReportLeftOut
from kseg.runtime.threads import Future, Threads

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


_Task = tuple[_Slot[D, C] | None, ReportLeftOut, Items[C], Future[list[C | LeftOut]] | None]


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
