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


def memory_for(keys: int) -> int:
    """Bytes that a map of so many keys takes."""
    return math.ceil((keys + 1) / LOAD_FACTOR) * ENTRY_BYTES


def new_secret() -> bytes:
    return os.urandom(key_hash.SECRET_BYTES)


class OffsetMap:
    """``latest_offset``: up to there the log is in the map, as `build_map` has it; -1 at first.

    Room for ``expected_keys`` is enough where that is known. The secret of its hash is drawn anew for each map, unless
    it is a share of one that has got its own.
    """

    def __init__(self, memory_bytes: int, expected_keys: int | None = None, secret: bytes | None = None) -> None:
        slots = max(min(memory_bytes // ENTRY_BYTES, _MOST_SLOTS), 2)
        most = int(slots * LOAD_FACTOR)
        if expected_keys is not None:
            slots = min(slots, max(expected_keys * 2, _LEAST_SLOTS))
        self.secret = memoryview(bytearray(secret or new_secret())).cast("q")
        self.state = int64s(4)
        self.state[key_map.SLOTS], self.state[key_map.MOST] = slots, min(most, slots - 1)
        self._room = mmap.mmap(-1, slots * ENTRY_BYTES)  # pages that are not touched take no memory
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._room.madvise(mmap.MADV_HUGEPAGE)
        self.table = memoryview(self._room).cast("q")
        self.latest_offset = -1

    def __len__(self) -> int:
        return int(self.state[key_map.COUNT])

    def put(self, hashes: memoryview, offsets: memoryview, count: int) -> int:
        """Puts keys by their hashes in this order; how many before the map was full."""
        return int(key_map.put(hashes, offsets, count, self.table, self.state))

    def entries(self, buckets: int) -> list[memoryview]:
        """All of it in so many shares, as `kseg.kernel.key_map` has entries; the same key is in the same share of any
        map with this secret."""
        bounds, out = int64s(buckets + 2), int64s(3 * len(self))
        key_map.scatter(self.table, self.state, bounds, out)
        return [out[3 * bounds[b] : 3 * bounds[b + 1]] for b in range(buckets)]

    def merge(self, entries: memoryview, least: int = 0) -> bool:
        """Puts entries of offsets from ``least`` on, of each key the last; False where the map is full."""
        return bool(key_map.merge(entries, least, self.table, self.state))

    def look_up(self, entries: memoryview) -> memoryview:
        """The entries of this map for the keys of others."""
        out = int64s(len(entries))
        return out[: 3 * key_map.look_up(entries, self.table, self.state, out)]

    def close(self) -> None:
        self.table.release()
        self._room.close()
