"""A range of a file that several threads read at the same time, in parts whose results come in their order.

It is cut where an intact batch seems to begin. Bytes inside of a record may look like one, so a part only counts if the
one before it ends where it begins.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

from kseg.kernel import COMPILED
from kseg.segment.windows import next_frame

T = TypeVar("T")

PART_BYTES = 4 << 20
PARTS_AHEAD = 2


def is_worth_parts(size: int, jobs: int) -> bool:
    """Whether a range of so many bytes is better read by ``jobs`` threads than by one: an interpreted kernel is not."""
    return COMPILED and jobs > 1 and size > 2 * PART_BYTES


Read = Callable[[int, int], tuple[int, T]]


def in_parts(
    descriptor: int, start: int, end: int, jobs: int, make_read: Callable[[], Read[T]]
) -> Iterator[tuple[int, T]]:
    """What ``read(start, end)`` gives of each part on some thread: the position where it ended, and anything else.

    ``make_read`` makes one for each thread, with room of its own. The last part is that which does not end where the
    next begins. Raises what ``read`` raises.
    """
    pending: deque[_Part[T]] = deque()
    position = start
    with _Readers(jobs, make_read) as readers:
        for part in _ranges(descriptor, start, end):
            pending.append(readers.begin(part))
            if len(pending) >= jobs * PARTS_AHEAD:
                position, found = pending.popleft().result()
                yield position, found
                if pending[0].start != position:
                    return
        while pending and pending[0].start == position:
            position, found = pending.popleft().result()
            yield position, found


class _Part(Generic[T]):
    """A part that is read, or waits to be."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self._outcome: SimpleQueue[tuple[tuple[int, T] | None, BaseException | None]] = SimpleQueue()

    def read_by(self, read: Read[T]) -> None:
        try:
            self._outcome.put((read(self.start, self.end), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who waits for the result
            self._outcome.put((None, error))

    def result(self) -> tuple[int, T]:
        """Waits for it. Raises what reading raised."""
        found, error = self._outcome.get()
        if found is None:
            assert error is not None
            raise error
        return found


class _Readers(Generic[T]):
    """Threads for as long as the context lasts: those of `concurrent.futures` take a tenth of kseg's start to import.

    When it ends, what was not begun is dropped.
    """

    def __init__(self, count: int, make_read: Callable[[], Read[T]]) -> None:
        self._waiting: SimpleQueue[_Part[T] | None] = SimpleQueue()
        self._is_over = False
        self._threads = [threading.Thread(target=self._work, args=(make_read(),), daemon=True) for _ in range(count)]

    def __enter__(self) -> "_Readers[T]":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def begin(self, part: tuple[int, int]) -> _Part[T]:
        """Has the part read when a thread is free."""
        waiting: _Part[T] = _Part(*part)
        self._waiting.put(waiting)
        return waiting

    def _work(self, read: Read[T]) -> None:
        while (part := self._waiting.get()) is not None:
            if not self._is_over:
                part.read_by(read)


def _ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges that begin where an intact batch seems to; the last one ends with the whole."""
    while end - start > 2 * PART_BYTES:
        found = next_frame(descriptor, start + PART_BYTES, end)
        if found < 0:
            break
        yield start, found
        start = found
    yield start, end
