"""A range of a file that several threads read at the same time, in parts whose results come in their order.

It is cut where an intact batch seems to begin. Bytes inside of a record may look like one, so a part only counts if the
one before it ends where it begins.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from kseg.kernel import COMPILED
from kseg.segment.threads import Outcome, Threads
from kseg.segment.windows import FIRST_LOOK_BYTES, next_frame

T = TypeVar("T")

PART_BYTES = 8 << 20
LAST_PART_BYTES = 1 << 20
"""Parts become smaller towards the end, down to this, so that no thread has much to do when the others are done."""
PARTS_AHEAD = 2
AHEAD_BYTES = 64 << 20
"""Of all parts that are read ahead, however many threads there are: what is found in small batches takes as much."""

_MOST_STEPS = 256


def is_worth_parts(size: int, jobs: int) -> bool:
    """Whether a range of so many bytes is better read by ``jobs`` threads than by one: an interpreted kernel is not."""
    return COMPILED and jobs > 1 and size > PART_BYTES


Read = Callable[[int, int], tuple[int, T]]


def in_parts(
    descriptor: int, start: int, end: int, jobs: int, make_read: Callable[[], Read[T]]
) -> Iterator[tuple[int, T]]:
    """What ``read(start, end)`` gives of each part on some thread: the position where it ended, and anything else.

    ``make_read`` makes one for each thread, with room of its own. The last part is that which does not end where the
    next begins. Raises what ``read`` raises.
    """
    pending: deque[tuple[int, Outcome[tuple[int, T]]]] = deque()
    position, parts = start, _ranges(descriptor, start, end, jobs)
    with Threads(jobs, make_read) as readers:
        while True:
            for part in islice(parts, jobs * PARTS_AHEAD - len(pending)):
                pending.append((part[0], readers.begin(partial(_read, part))))
            if not pending or pending[0][0] != position:
                return
            position, found = pending.popleft()[1].result()
            yield position, found


def _read(part: tuple[int, int], read: Read[T]) -> tuple[int, T]:
    return read(*part)


def _ranges(descriptor: int, start: int, end: int, jobs: int) -> Iterator[tuple[int, int]]:
    """Ranges that begin where an intact batch seems to; the last one ends with the whole."""
    least = min(LAST_PART_BYTES, PART_BYTES)
    most = min(PART_BYTES, AHEAD_BYTES // (PARTS_AHEAD * jobs))
    while end - start > 2 * least:
        size = max(min(most, (end - start) // (2 * jobs)), least)
        found = _cut(descriptor, start, start + size, end)
        if not start < found < end:
            break
        yield start, found
        start = found
    yield start, end


def _cut(descriptor: int, start: int, wanted: int, end: int) -> int:
    """Where a batch seems to begin at ``wanted`` or behind it, as one does at ``start``; -1 where none is found."""
    found = next_frame(descriptor, wanted, end, wanted + FIRST_LOOK_BYTES)
    if found >= 0:
        return found
    # Large batches: a few steps from length to length take less time than a search does.
    for _ in range(_MOST_STEPS):
        head = os.pread(descriptor, 12, start)
        size = int.from_bytes(head[8:], "big", signed=True)
        if len(head) < 12 or size <= 0:
            break
        start += 12 + size
        if start >= wanted:
            return start
    return next_frame(descriptor, wanted + FIRST_LOOK_BYTES, end)
