"""``.index``: from offsets to byte positions in the .log (Kafka's OffsetIndex).

    0   relativeOffset   int32   offset - base offset of the segment
    4   position         int32   byte position in the .log where a batch begins

The offset is that of the batch's last record since 2.0, of its first up to 1.1; a log upgraded in place has both. An
entry may also stand for all batches of one append (up to 3.9.0): then its offset is the largest of them and its
position that of the first.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kseg.sidefiles.entries import EntryFile, int32
from kseg.sidefiles.problems import SideFileProblem


class OffsetIndexEntry(NamedTuple):
    """``offset`` is absolute, ``position`` a byte in the .log."""

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
        """The last entry in use whose offset is not above ``offset``; without one (base offset, 0)."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle].offset <= offset:
                low = middle + 1
            else:
                high = middle
        return self[low - 1] if low else OffsetIndexEntry(self.base_offset, 0)

    def sanity_problem(self) -> str | None:
        """What OffsetIndex.sanityCheck of 4.3.1 refuses, None where it passes. A tail of zeros passes."""
        if self.room and (last := self[self.room - 1].offset) < self.base_offset:
            return f"the last offset {last} is below the base offset {self.base_offset}"
        if self.size % self.LAYOUT.size:
            return f"{self.size} bytes are no multiple of {self.LAYOUT.size}"
        return None


def read_offset_index(buffer: Any, base_offset: int = 0) -> Iterator[OffsetIndexEntry | SideFileProblem]:
    """Entries and problems of a .index file whose name begins with ``base_offset``."""
    return OffsetIndex(buffer, base_offset).items()


def build_offset_index(entries: Iterable[OffsetIndexEntry], base_offset: int) -> bytes:
    """The bytes of a closed .index file. Raises ValueError for what does not fit in 32 bits."""
    pack = OffsetIndex.LAYOUT.pack
    return b"".join(
        pack(int32(entry.offset - base_offset, "relative offset"), int32(entry.position, "position"))
        for entry in entries
    )
