"""Maps keys to their last offset within a memory limit (Kafka's SkimpyOffsetMap)."""

import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kseg.cleaner.log import CleanerSegment, aborted_between, segments_between
from kseg.cleaner.reading import CleaningThreads, RecordBuffers, Window, open_batch, windows
from kseg.cleaner.transactions import CleanedTransactions, as_verdicts
from kseg.formats.rows import int64s
from kseg.formats.suffixes import TRANSACTION_INDEX
from kseg.kernel.compact import keys
from kseg.kernel.compact.key_map import ENTRY_WIDTH, SECRET_BYTES, KeyMap, Secret
from kseg.kernel.layout.rows import DONE, NOT_PLAIN
from kseg.segment.batches import Message
from kseg.stores.buffers import Buffers

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


# The keys of a window, hashed by any thread.


class Hashes(NamedTuple):
    """Hashes of ``keys`` keys in record order; the window's first ``batches`` batches are complete with them."""

    hashes: memoryview
    offsets: memoryview
    keys: int
    batches: int


def read_keys(window: Window, verdicts: memoryview, least: int, secret: Secret, buffers: RecordBuffers) -> list[Hashes]:
    """Returns the keys of offsets ``least`` and above, in parts. Raises DamagedError."""
    reader, found = keys.KeyReader(secret, least), []
    opened: Any = None
    while True:
        status = reader.read(
            window.data, window.rows, window.count, verdicts, buffers.rows, buffers.hashes, buffers.offsets,
            buffers.expansion, opened,
        )  # fmt: skip
        i, opened = reader.frame, opened if reader.is_open else None
        found.append(_copied(buffers, reader.keys, i))
        reader.keys = 0
        if status == DONE:
            return found
        if status == NOT_PLAIN:
            opened = open_batch(window, i, buffers)
        if isinstance(opened, Message):
            for rows in opened.rows():
                if rows.count > len(buffers.offsets):
                    buffers.widen(rows.count)
                count = reader.read_rows(rows.payload, rows.rows, rows.count, buffers.hashes, buffers.offsets)
                found.append(_copied(buffers, count, i))
            reader.go_to(i + 1)
            opened = None


def _copied(buffers: RecordBuffers, count: int, batches: int) -> Hashes:
    hashes, offsets = int64s(2 * count), int64s(count)
    hashes[:], offsets[:] = buffers.hashes[: 2 * count], buffers.offsets[:count]
    return Hashes(hashes, offsets, count, batches)


# The map of the dirty part of a log (Cleaner.buildOffsetMap).

_Found = tuple[Window, list[Hashes]]


class MapBuilder:
    """Adds the keys of offsets [start, end) to ``offset_map``; ``end`` is a segment's base offset or the log end."""

    def __init__(
        self,
        offset_map: OffsetMap,
        start: int,
        workers: CleaningThreads,
        advance: Callable[[int], None] = lambda _: None,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """``advance`` receives the number of bytes read; ``transactions``: their state at ``start``."""
        self._advance = advance
        self._map, self._start, self._workers = offset_map, start, workers
        self._transactions = transactions or CleanedTransactions()

    def build(self, segments: Sequence[CleanerSegment], end: int, buffers: Buffers) -> int:
        """Returns the first offset that is not in the map. Raises DamagedError."""
        dirty = segments_between(segments, self._start, end)
        with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        self._transactions.add(aborted_between(with_aborted, self._start, end))
        for i, segment in enumerate(dirty):
            if not self.take(segment, buffers):
                return self._map.keys.latest_offset + 1
            behind = dirty[i + 1].base_offset if i + 1 < len(dirty) else end
            self._map.keys.latest_offset = max(behind - 1, self._map.keys.latest_offset)
        return self._map.keys.latest_offset + 1

    def take(self, segment: CleanerSegment, buffers: Buffers) -> bool:
        """Adds a segment; returns False if the map is full. Raises DamagedError."""
        for window in windows(segment.path, buffers):
            if not self._take(window):
                self._discard_rest()
                return False
            self._advance(window.size)
        if not self._put_all(self._workers.drain()):
            self._discard_rest()
            return False
        return True

    def _take(self, window: Window) -> bool:
        """Submits a window and adds the results that are ready; returns False if the map is full."""
        start, secret = self._start, self._map.keys.secret
        verdicts = as_verdicts(self._transactions.discardable(window), window.count)

        def work(buffers: RecordBuffers, kept: Window) -> _Found:
            return kept, read_keys(kept, verdicts, start, secret, buffers)

        return self._put_all(self._workers.submit(window, work))

    def _put_all(self, ready: Iterator[_Found]) -> bool:
        return all(self._put(window, hashes) for window, found in ready for hashes in found)

    def _discard_rest(self) -> None:
        """Discards windows read after the map became full."""
        for _ in self._workers.drain():
            pass

    def _put(self, window: Window, found: Hashes) -> bool:
        """Adds the keys of a window; returns False if the map is full."""
        taken = self._map.put(found.hashes, found.offsets, found.keys)
        if taken < found.keys:
            self._end_before(window, found.offsets[taken])
            if taken:
                self._map.keys.latest_offset = max(self._map.keys.latest_offset, found.offsets[taken - 1])
            return False
        self._end_before(window, None, found.batches)
        return True

    def _end_before(self, window: Window, offset: int | None, batches: int | None = None) -> None:
        """Records the map's end: the last batch that ends before ``offset``, or batch number ``batches``."""
        ends = window.lasts[:batches]
        if offset is not None:
            ends = [end for end in ends if end < offset]
        if ends and ends[-1] >= self._start:
            self._map.keys.latest_offset = max(self._map.keys.latest_offset, ends[-1])
