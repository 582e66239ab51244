"""The map from keys to the last offset of each, within a bound of memory (Kafka's SkimpyOffsetMap)."""

import math
import mmap
import os

from kseg.formats.rows import int64s
from kseg.kernel import key_hash, key_map

ENTRY_BYTES = 24
LOAD_FACTOR = 0.9
"""log.cleaner.io.buffer.load.factor."""

_MOST_SLOTS = (1 << 32) - 1
_LEAST_SLOTS = 1024
_FIRST_SLOTS = 1 << 16
_GROWING_LOAD = 0.6
"""The share of slots that are taken when a map that may grow does: the more, the longer is each search."""
_MOVED_SLOTS = 1 << 17
"""Moved at a time, of which the old ones are memory no more: 3 MiB."""


def memory_for(keys: int) -> int:
    """Bytes that a map of so many keys takes."""
    return math.ceil((keys + 1) / LOAD_FACTOR) * ENTRY_BYTES


def new_secret() -> bytes:
    return os.urandom(key_hash.SECRET_BYTES)


class OffsetMap:
    """``latest_offset``: up to there the log is in the map, as `build_map` has it; -1 at first.

    It grows with its keys; room for ``expected_keys`` is enough where that is known. The secret of its hash is drawn
    anew for each map, unless it is a share of one that has got its own.
    """

    def __init__(self, memory_bytes: int, expected_keys: int | None = None, secret: bytes | None = None) -> None:
        slots = max(min(memory_bytes // ENTRY_BYTES, _MOST_SLOTS), 2)
        self._most_keys = int(slots * LOAD_FACTOR)
        if expected_keys is not None:
            slots = min(slots, max(expected_keys * 2, _LEAST_SLOTS))
        self._most_slots = slots
        self.secret = memoryview(bytearray(secret or new_secret())).cast("q")
        self.state = int64s(4)
        self._room, self.table = self._made(min(slots, _FIRST_SLOTS))
        self.latest_offset = -1

    def _made(self, slots: int) -> tuple[mmap.mmap, memoryview]:
        """A table that is empty, and is to be that of the map: ``state`` tells its size."""
        is_last = slots == self._most_slots
        most = self._most_keys if is_last else int(slots * _GROWING_LOAD)
        self.state[key_map.SLOTS], self.state[key_map.MOST] = slots, min(most, slots - 1)
        size = slots * ENTRY_BYTES
        if hasattr(mmap, "MAP_PRIVATE"):
            room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared ones get no huge pages
        else:
            room = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            room.madvise(mmap.MADV_HUGEPAGE)
        return room, memoryview(room).cast("q")

    def _grow(self) -> bool:
        """Moves to a table of twice as many slots, and gives the old one back bit by bit; False where it is full."""
        old_room, old, slots = self._room, self.table, self.state[key_map.SLOTS]
        if slots == self._most_slots:
            return False
        self._room, self.table = self._made(min(2 * slots, self._most_slots))
        for first in range(0, slots, _MOVED_SLOTS):
            stop = min(first + _MOVED_SLOTS, slots)
            key_map.move(old, first, stop, self.table, self.state)
            if hasattr(mmap, "MADV_DONTNEED"):
                old_room.madvise(mmap.MADV_DONTNEED, first * ENTRY_BYTES, (stop - first) * ENTRY_BYTES)
        old.release()
        old_room.close()
        return True

    def __len__(self) -> int:
        return int(self.state[key_map.COUNT])

    def put(self, hashes: memoryview, offsets: memoryview, count: int) -> int:
        """Puts keys by their hashes in this order; how many before the map was full."""
        taken = 0
        while True:
            taken += key_map.put(hashes[2 * taken :], offsets[taken:], count - taken, self.table, self.state)
            if taken == count or not self._grow():
                return taken

    def entries(self, buckets: int) -> list[memoryview]:
        """All of it in so many shares, as `kseg.kernel.key_map` has entries; the same key is in the same share of any
        map with this secret."""
        bounds, out = int64s(buckets + 2), int64s(3 * len(self))
        key_map.scatter(self.table, self.state, bounds, out)
        return [out[3 * bounds[b] : 3 * bounds[b + 1]] for b in range(buckets)]

    def merge(self, entries: memoryview, least: int = 0) -> bool:
        """Puts entries of offsets from ``least`` on, of each key the last; False where the map is full."""
        while not key_map.merge(entries, least, self.table, self.state):  # what it put is as good the second time
            if not self._grow():
                return False
        return True

    def look_up(self, entries: memoryview) -> memoryview:
        """The entries of this map for the keys of others."""
        out = int64s(len(entries))
        return out[: 3 * key_map.look_up(entries, self.table, self.state, out)]

    def close(self) -> None:
        self.table.release()
        self._room.close()
