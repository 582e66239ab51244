"""Index files made of entries."""

from collections.abc import Iterable

from kseg.sidefiles.indexes import OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry


def offset_index_bytes(entries: Iterable[OffsetIndexEntry], base_offset: int) -> bytes:
    """The bytes of a closed .index file."""
    return b"".join(OffsetIndex.LAYOUT.pack(entry.offset - base_offset, entry.position) for entry in entries)


def time_index_bytes(entries: Iterable[TimeIndexEntry], base_offset: int) -> bytes:
    """The bytes of a closed .timeindex file."""
    return b"".join(TimeIndex.LAYOUT.pack(entry.timestamp, entry.offset - base_offset) for entry in entries)
