"""``.index``: maps offsets to byte positions in the .log (Kafka's OffsetIndex).

    0   relativeOffset   int32   offset - base offset of the segment
    4   position         int32   byte position in the .log where a batch begins

Since 2.0 the offset is the batch's last offset; up to 1.1 it is the first. A log upgraded in place has both. Up to
3.9.0 an entry may also cover all batches of one append: then its offset is the largest of them and its position that of
the first batch.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable
from kseg.sidefiles.entries import EntryFile
from kseg.sidefiles.problems import SideFileProblem


class OffsetIndexEntry(NamedTuple):
    """``offset`` is absolute; ``position`` is a byte position in the .log."""

    offset: int
    position: int


class OffsetIndex(EntryFile[OffsetIndexEntry]):
    """The entries of a .index file."""

    LAYOUT = struct.Struct(">ii")

    def _entry(self, fields: tuple[int, ...]) -> OffsetIndexEntry:
        return OffsetIndexEntry(self.base_offset + fields[0], fields[1])

    def _problem(self, entry: OffsetIndexEntry, before: OffsetIndexEntry | None) -> tuple[str, str] | None:
        if entry.offset < self.base_offset:
            return "offset-below-base", f"offset {entry.offset} is below the base offset {self.base_offset}"
        if entry.position < 0:
            return "bad-value", f"position {entry.position} is negative"
        if before and (entry.offset <= before.offset or entry.position <= before.position):
            return "unsorted", f"offset {entry.offset} at {entry.position} follows {before.offset} at {before.position}"
        return None

    def lookup(self, offset: int) -> OffsetIndexEntry:
        """Returns the last entry in use with an offset of at most ``offset``, or (base offset, 0)."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle].offset <= offset:
                low = middle + 1
            else:
                high = middle
        return self[low - 1] if low else OffsetIndexEntry(self.base_offset, 0)

    def sanity_problem(self) -> str | None:
        """Why OffsetIndex.sanityCheck of 4.3.1 rejects the file, None if it accepts it. It accepts trailing zeros."""
        if self.capacity and (last := self[self.capacity - 1].offset) < self.base_offset:
            return f"the last offset {last} is below the base offset {self.base_offset}"
        if self.size % self.LAYOUT.size:
            return f"{self.size} bytes are no multiple of {self.LAYOUT.size}"
        return None


def read_offset_index(buffer: Sliceable, base_offset: int = 0) -> Iterator[OffsetIndexEntry | SideFileProblem]:
    """Yields the entries and problems of a .index file; ``base_offset`` is the number in its name."""
    return OffsetIndex(buffer, base_offset).items()
