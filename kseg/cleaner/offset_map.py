"""Maps keys to their last offset within a memory limit (Kafka's SkimpyOffsetMap)."""

import math
import mmap
import os

from kseg.formats.rows import int64s
from kseg.kernel.compact.key_hash import SECRET_BYTES, Secret
from kseg.kernel.compact.key_map import ENTRY_WIDTH, KeyMap

ENTRY_BYTES = 24
LOAD_FACTOR = 0.9
"""log.cleaner.io.buffer.load.factor."""

_MAX_SLOTS = (1 << 32) - 1
_MIN_SLOTS = 1024
_FIRST_SLOTS = 1 << 16
_GROWING_LOAD = 0.6
"""Load factor at which a growing map is enlarged; a higher one makes lookups slower."""
_MOVED_SLOTS = 1 << 17
"""Slots moved at a time, after which the old ones are released: 3 MiB."""


def memory_for(keys: int) -> int:
    """Returns the bytes that a map of ``keys`` keys takes."""
    return math.ceil((keys + 1) / LOAD_FACTOR) * ENTRY_BYTES


def new_secret() -> bytes:
    return os.urandom(SECRET_BYTES)


class OffsetMap:
    """A `KeyMap` (``keys``) whose table grows with its keys, up to a size for ``expected_keys`` if that is known.

    Each map draws a new secret for its hash, unless it is a partition of a larger map, whose secret it then shares.
    """

    def __init__(self, memory_bytes: int, expected_keys: int | None = None, secret: bytes | None = None) -> None:
        slots = max(min(memory_bytes // ENTRY_BYTES, _MAX_SLOTS), 2)
        self._max_keys = int(slots * LOAD_FACTOR)
        if expected_keys is not None:
            slots = min(slots, max(expected_keys * 2, _MIN_SLOTS))
        self._max_slots = slots
        self.keys = KeyMap(Secret(secret or new_secret()))
        self._memory, self._table = self._allocated(min(slots, _FIRST_SLOTS))

    @property
    def latest_offset(self) -> int:
        """The log is in the map up to this offset; -1 at first (see `kseg.cleaner.mapping`)."""
        return int(self.keys.latest_offset)

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.keys.latest_offset = offset

    def _allocated(self, slots: int) -> tuple[mmap.mmap, memoryview]:
        """Allocates an empty table and makes it the map's table."""
        is_last = slots == self._max_slots
        max_count = self._max_keys if is_last else int(slots * _GROWING_LOAD)
        size = slots * ENTRY_BYTES
        if hasattr(mmap, "MAP_PRIVATE"):
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared ones get no huge pages
        else:
            memory = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        table = memoryview(memory).cast("q")
        self.keys.use(table, slots, min(max_count, slots - 1))
        return memory, table

    def _grow(self) -> bool:
        """Moves to a table of twice the size, releasing the old one in steps; returns False at the maximum size."""
        old_memory, old, slots = self._memory, self._table, self.keys.slots
        if slots == self._max_slots:
            return False
        self._memory, self._table = self._allocated(min(2 * slots, self._max_slots))
        for first in range(0, slots, _MOVED_SLOTS):
            stop = min(first + _MOVED_SLOTS, slots)
            self.keys.move(old, first, stop)
            if hasattr(mmap, "MADV_DONTNEED"):
                old_memory.madvise(mmap.MADV_DONTNEED, first * ENTRY_BYTES, (stop - first) * ENTRY_BYTES)
        old.release()
        old_memory.close()
        return True

    def __len__(self) -> int:
        return int(self.keys.count)

    def put(self, hashes: memoryview, offsets: memoryview, count: int) -> int:
        """Adds keys by their hashes, in order; returns the number added before the map was full."""
        taken = 0
        while True:
            taken += self.keys.put(hashes[2 * taken :], offsets[taken:], count - taken)
            if taken == count or not self._grow():
                return taken

    def entries(self, buckets: int) -> list[memoryview]:
        """Returns all entries, partitioned into ``buckets`` buckets (layout: `kseg.kernel.compact.key_map`).

        A key is in the same bucket of every map with this secret.
        """
        bounds, out = int64s(buckets + 2), int64s(ENTRY_WIDTH * len(self))
        self.keys.scatter(bounds, out)
        return [out[ENTRY_WIDTH * bounds[b] : ENTRY_WIDTH * bounds[b + 1]] for b in range(buckets)]

    def merge(self, entries: memoryview, least: int = 0) -> bool:
        """Merges entries of offsets from ``least`` on, keeping each key's last offset; False if the map is full."""
        while not self.keys.merge(entries, least):  # merging an entry twice is harmless
            if not self._grow():
                return False
        return True

    def look_up(self, entries: memoryview) -> memoryview:
        """Returns this map's entries for the keys of ``entries``."""
        out = int64s(len(entries))
        return out[: ENTRY_WIDTH * self.keys.look_up(entries, out)]

    def close(self) -> None:
        self.keys.clear()
        self._table.release()
        self._memory.close()
