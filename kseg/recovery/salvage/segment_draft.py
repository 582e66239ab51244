"""A segment that salvage will write: batches of its own file, and batches of other files between them."""

from bisect import bisect_right, insort
from collections.abc import Container, Iterable, Iterator
from functools import cached_property

from kseg.formats.suffixes import LOG, TIME_INDEX
from kseg.recovery.salvage.layout import Layout
from kseg.recovery.salvage.parts import Parts, SalvagedBatches, without_batches
from kseg.recovery.salvage.segment_contents import SegmentContents
from kseg.stores import trees

MAX_GAPS = 1 << 16
"""Limit of the gaps of a segment that are recorded one by one: `verify` accepts only gaps that are named exactly."""


class SegmentDraft:
    """The segment ``name``, "" for a file that becomes no segment: its own ``parts``, and ``extra`` ones put between
    them.

    ``file`` is the present name of the file with its own parts. A released draft has no parts until its file is read
    again.
    """

    def __init__(self, contents: SegmentContents, name: str, file: str = "") -> None:
        self.contents = contents
        self.name = name
        self.file = file or name
        self.extra: list[SalvagedBatches] = []
        self.is_released = False
        self._gaps: list[tuple[int, int]] = []
        self._next_offset = 0
        self._bytes = -1

    @property
    def parts(self) -> Parts:
        return self.contents.parts

    def release_parts(self) -> None:
        """Releases the parts of an intact segment."""
        self._gaps, self._next_offset = self._gaps_inside(False), self.next_offset
        self.contents.parts = Parts(self.contents.base)
        self.is_released = True

    def restore_parts(self, parts: Parts) -> None:
        """Stores the parts again."""
        self.contents.parts = parts
        self.is_released = False

    @cached_property
    def was_empty(self) -> bool:
        """Whether its closed file is empty, and its time index shows that it always was."""
        path = self.contents.path
        index = path.removesuffix(LOG) + TIME_INDEX
        return not self.contents.is_last and bool(path) and _is_empty(path) and path.endswith(LOG) and _is_empty(index)

    @property
    def has_repaired_headers(self) -> bool:
        """Whether headers were repaired."""
        return self.contents.has_repaired or any(part.head for part in self.extra)

    @property
    def is_changed(self) -> bool:
        """Whether its file will be rewritten."""
        return not self.contents.is_intact or bool(self.extra)

    @property
    def is_empty(self) -> bool:
        return not (len(self.parts) or self.extra or self.is_released)

    def gaps(self, is_cleaned: bool) -> list[tuple[int, int]]:
        """Returns the ranges of missing offsets from its base to its last offset; one range that spans them if there
        are many.

        ``is_cleaned``: without gaps between adjacent batches of the file, which the log cleaner has left.
        """
        if self.is_released:  # an intact one has none
            return [] if is_cleaned else self._gaps
        return self._gaps_inside(is_cleaned)

    def _gaps_inside(self, is_cleaned: bool) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        reached, count, before = self.contents.base, 0, ("", 0)
        for start, end, first, last, head, path in self.layout().rows():
            if first > reached and not (is_cleaned and not head and before == (path, start)):
                count += 1
                if count <= MAX_GAPS:
                    found.append((reached, first - 1))
                else:
                    found[-1] = (found[-1][0], first - 1)
            reached = last + 1
            if is_cleaned:  # damage to a header may have hit its neighbours
                before = ("", -1) if head else (path, end)
        return found if count <= MAX_GAPS else [(found[0][0], found[-1][1])]

    @property
    def ends_as_it_was(self) -> bool:
        """Whether nothing is missing, moved or repaired at the end of its file."""
        if self.is_released or not self.is_changed:
            return True
        ends = [parts[len(parts) - 1] for parts in (self.parts, self.extra) if len(parts)]
        last = max(ends, key=lambda part: part.last, default=None)
        return last is not None and not (last.path or last.head) and last.end == trees.getsize(self.contents.path)

    @property
    def next_offset(self) -> int:
        """The offset after its last batch; its base if it has none."""
        if self.is_released:
            return self._next_offset
        last = self.layout().last_offset
        return self.contents.base if last is None else last + 1

    def around(self, first: int, last: int) -> tuple[int | None, int | None] | None:
        """Returns the last taken offset before a free range and the first after it, each None if there is none.

        Returns None if the range is not free.
        """
        before, behind = None, None
        i = self.parts.last_from(last)
        if i >= 0:
            before = self.parts[i].last
        if i + 1 < len(self.parts):
            behind = self.parts[i + 1].first
        k = bisect_right(self.extra, last, key=lambda part: part.first) - 1
        if k >= 0:
            before = max(self.extra[k].last, -1 if before is None else before)
        if k + 1 < len(self.extra):
            found = self.extra[k + 1].first
            behind = found if behind is None else min(behind, found)
        return None if before is not None and before >= first else (before, behind)

    def covers(self, first: int, last: int) -> bool:
        """Whether all offsets of a range are taken."""
        at = last
        while at >= first:
            i = self.parts.last_from(at)
            k = bisect_right(self.extra, at, key=lambda part: part.first) - 1
            found = [self.parts[i]] if i >= 0 else []
            found += [self.extra[k]] if k >= 0 else []
            taken = [part.first for part in found if part.last >= at]
            if not taken:
                return False
            at = min(taken) - 1
        return True

    @property
    def size(self) -> int:
        """The size of its new file."""
        if self._bytes < 0:
            self._bytes = self.layout().size
        return self._bytes

    def put(self, part: SalvagedBatches) -> None:
        """Adds batches at free offsets."""
        self._bytes = -1 if self._bytes < 0 else self._bytes + part.size
        insort(self.extra, part, key=lambda part: part.first)

    def take(self, number: int) -> None:
        """Removes one of its own parts."""
        self.contents.parts, self._bytes = self.contents.parts.without({number}), -1

    def take_back(self, parts: Parts, part: SalvagedBatches) -> None:
        """Reverts `take` and `put`: restores its own ``parts``, and removes ``part``."""
        self.extra.remove(part)
        self.contents.parts, self._bytes = parts, -1

    def leave_out(self, firsts: Container[int]) -> list[SalvagedBatches]:
        """Removes and returns the batches with these first offsets, each with the path of its file, "" for the
        segment's own."""
        if not firsts:
            return []
        taken, self._bytes = self.contents.leave_out(firsts), -1
        self.extra[:] = without_batches(self.extra, firsts, self.contents.path, taken)
        return taken

    def holders(self, offsets: Iterable[int]) -> Iterator[SalvagedBatches]:
        """Yields the parts that contain any of these offsets, each once."""
        last = -1
        for offset in sorted(offsets):
            if offset <= last:
                continue
            k = bisect_right(self.extra, offset, key=lambda part: part.first) - 1
            i = self.parts.last_from(offset)
            found = ([self.parts[i]] if i >= 0 else []) + ([self.extra[k]] if k >= 0 else [])
            for part in found:
                if part.last >= offset:
                    last = part.last
                    yield part

    def layout(self) -> Layout:
        """Returns the layout of the new segment."""
        return Layout(self.contents.path, self.parts, self.extra)


def _is_empty(path: str) -> bool:
    """Whether a file exists and is empty."""
    try:
        return trees.getsize(path) == 0
    except OSError:
        return False
