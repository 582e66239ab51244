"""Reads a range of a file in several threads, in parts whose results come in order.

The range is divided at apparent starts of intact batches. Bytes inside a record may look like one, so a part is used
only if the previous part ends exactly at its start.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from kseg.kernel import COMPILED
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE
from kseg.runtime.threads import Future, Threads
from kseg.stores.extent import Extent
from kseg.stores.windows import FIRST_LOOK_BYTES, next_frame

T = TypeVar("T")

PART_BYTES = 8 << 20
LAST_PART_BYTES = 1 << 20
"""Parts shrink to this size towards the end, so that all threads finish at about the same time."""
PARTS_AHEAD = 2
AHEAD_BYTES = 64 << 20
"""Limit of bytes read ahead by all threads together; results of small batches take as much memory."""

_MAX_STEPS = 256


def is_worth_parts(size: int, jobs: int) -> bool:
    """Whether ``jobs`` threads read this many bytes faster than one; never with the interpreted kernel."""
    return COMPILED and jobs > 1 and size > PART_BYTES


Read = Callable[[int, int], tuple[int, T]]


def in_parts(
    extent: Extent, start: int, end: int, jobs: int, make_read: Callable[[], Read[T]]
) -> Iterator[tuple[int, T]]:
    """Yields the results of ``read(start, end)`` for each part: the position at which it ended, and its value.

    ``make_read`` creates a reader per thread, with its own buffers. Stops after a part that does not end at the start
    of the next. Raises any error of ``read``.
    """
    pending: deque[tuple[int, Future[tuple[int, T]]]] = deque()
    position, parts = start, _ranges(extent, start, end, jobs)
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


def _ranges(extent: Extent, start: int, end: int, jobs: int) -> Iterator[tuple[int, int]]:
    """Yields ranges that begin at apparent batch starts; the last one ends at ``end``."""
    least = min(LAST_PART_BYTES, PART_BYTES)
    max_bytes = min(PART_BYTES, AHEAD_BYTES // (PARTS_AHEAD * jobs))
    while end - start > 2 * least:
        size = max(min(max_bytes, (end - start) // (2 * jobs)), least)
        found = _cut(extent, start, start + size, end)
        if not start < found < end:
            break
        yield start, found
        start = found
    yield start, end


def _cut(extent: Extent, start: int, wanted: int, end: int) -> int:
    """Returns an apparent batch start at ``wanted`` or after it, given one at ``start``; -1 if none is found."""
    found = next_frame(extent, wanted, end, wanted + FIRST_LOOK_BYTES)
    if found >= 0:
        return found
    # For large batches a few steps from length to length are faster than a search.
    for _ in range(_MAX_STEPS):
        head = extent.pread(12, start)
        size = int.from_bytes(head[ENTRY_SIZE:], "big", signed=True)
        if len(head) < ENTRY_OVERHEAD or size <= 0:
            break
        start += ENTRY_OVERHEAD + size
        if start >= wanted:
            return start
    return next_frame(extent, wanted + FIRST_LOOK_BYTES, end)
