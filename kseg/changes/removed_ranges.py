"""The ranges of an old file that do not occur in its replacement: only these must be kept."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator


class RemovedRanges:
    """Ranges of a file of ``old_size`` bytes in ascending order, stored end to end in the kept file: ``size`` bytes in
    total.

    ``staying``: position and length of the ranges that the new file reuses, in any order. ``are_within_file``: all of
    these are within the file.
    """

    def __init__(self, old_size: int, staying: Iterable[tuple[int, int]]) -> None:
        self.old_size = old_size
        self._starts, self._ends, self._places = array("q"), array("q"), array("q")
        starts, ends, before, is_rising, largest = array("q"), array("q"), -1, True, 0
        for position, length in staying:
            end = position + length
            is_rising = is_rising and before <= position
            before, largest = position, end if end > largest else largest
            starts.append(position)
            ends.append(end)
        self.are_within_file = largest <= old_size
        if not is_rising:
            order = sorted(range(len(starts)), key=starts.__getitem__)
            starts, ends = array("q", map(starts.__getitem__, order)), array("q", map(ends.__getitem__, order))
        at = size = 0
        starts.append(old_size)
        ends.append(old_size)
        for start, end in zip(starts, ends, strict=True):
            if at < start:
                self._starts.append(at)
                self._ends.append(start)
                self._places.append(size)
                size += start - at
            at = end if end > at else at
        self.size = size

    @property
    def shared_bytes(self) -> int:
        """Number of bytes of the old file that the new file reuses."""
        return self.old_size - self.size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yields position in the old file and length of each range."""
        return ((start, end - start) for start, end in zip(self._starts, self._ends, strict=True))

    def split(self, position: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Splits a range of the file into parts: position, length, and position in the kept file, or -1 if it is not
        kept.
        """
        end, i = position + length, max(bisect_right(self._starts, position) - 1, 0)
        while position < end:
            if i == len(self._starts) or self._starts[i] >= end:
                yield position, end - position, -1
                return
            if self._starts[i] > position:
                yield position, self._starts[i] - position, -1
                position = self._starts[i]
            if (stop := min(self._ends[i], end)) > position:
                yield position, stop - position, self._places[i] + position - self._starts[i]
                position = stop
            i += 1
