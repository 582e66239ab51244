"""A range of a file that several threads read at the same time, in parts whose results come in their order.

It is cut where an intact batch seems to begin. Bytes inside of a record may look like one, so a part only counts if the
one before it ends where it begins.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from kseg.kernel import COMPILED
from kseg.segment.threads import Outcome, Threads
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
    pending: deque[tuple[int, Outcome[tuple[int, T]]]] = deque()
    position = start
    with Threads(jobs, make_read) as readers:
        for part in _ranges(descriptor, start, end):
            pending.append((part[0], readers.begin(partial(_read, part))))
            if len(pending) >= jobs * PARTS_AHEAD:
                position, found = pending.popleft()[1].result()
                yield position, found
                if pending[0][0] != position:
                    return
        while pending and pending[0][0] == position:
            position, found = pending.popleft()[1].result()
            yield position, found


def _read(part: tuple[int, int], read: Read[T]) -> tuple[int, T]:
    return read(*part)


def _ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges that begin where an intact batch seems to; the last one ends with the whole."""
    while end - start > 2 * PART_BYTES:
        found = next_frame(descriptor, start + PART_BYTES, end)
        if found < 0:
            break
        yield start, found
        start = found
    yield start, end
