"""Builds the offset and time index of one segment from batch headers (`kseg.kernel.indexing`).

The entries are those that brokers since 3.9.1 write on append, and those of the cleaner and of recovery.
"""

from struct import Struct

from kseg.formats.rows import int64s
from kseg.kernel import indexing
from kseg.kernel.indexing import DONE

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
_INT32, _WRAP = 1 << 31, 1 << 32


class SegmentIndexes:
    """``offsets`` and ``times`` are the bytes of the two indexes so far.

    For ``uses_first_offset``, ``has_times`` and ``takes_any`` see `kseg.kernel.indexing`.
    """

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        uses_first_offset: bool = False,
        has_times: bool = True,
        takes_any: bool = False,
    ) -> None:
        self._base = base_offset
        self._state = state = int64s(indexing.STATE_WIDTH)
        state[indexing.INTERVAL], state[indexing.BASE] = interval_bytes, base_offset
        for column in (
            indexing.LARGEST_TIMESTAMP, indexing.LARGEST_TIMESTAMP_OFFSET, indexing.LAST_OFFSET,
            indexing.LAST_TIMESTAMP, indexing.LAST_TIME_OFFSET,
        ):  # fmt: skip
            state[column] = -1
        state[indexing.USES_FIRST_OFFSET], state[indexing.HAS_TIMES] = uses_first_offset, has_times
        state[indexing.TAKES_ANY] = takes_any
        self.offsets, self.times = bytearray(), bytearray()
        self._entries, self._stamps = memoryview(b""), memoryview(b"")

    @property
    def largest_timestamp(self) -> int:
        """In ms, -1 if there is none."""
        return int(self._state[indexing.LARGEST_TIMESTAMP])

    def take(self, rows: memoryview, count: int) -> tuple[int, int]:
        """Adds the entries of ``count`` batches (rows BATCH_*); returns a status of `kseg.kernel.indexing` and the
        number of batches added."""
        state = self._state
        if len(self._entries) < count * indexing.OFFSET_ENTRY_BYTES:
            self._entries = memoryview(bytearray(count * indexing.OFFSET_ENTRY_BYTES))
            self._stamps = memoryview(bytearray(count * indexing.TIME_ENTRY_BYTES))
        status = indexing.index(rows, count, state, self._entries, self._stamps)
        self.offsets += self._entries[: state[indexing.OFFSETS] * indexing.OFFSET_ENTRY_BYTES]
        self.times += self._stamps[: state[indexing.TIMES] * indexing.TIME_ENTRY_BYTES]
        return status, count if status == DONE else state[indexing.ROW]

    def finish(self) -> bool:
        """Adds the last entry of the time index; returns False if its offset is below the previous entry's."""
        state = self._state
        largest, at = state[indexing.LARGEST_TIMESTAMP], state[indexing.LARGEST_TIMESTAMP_OFFSET]
        if not state[indexing.HAS_TIMES] or largest <= state[indexing.LAST_TIMESTAMP]:
            return True
        if at < state[indexing.LAST_TIME_OFFSET]:
            return False
        self.times += TIME_ENTRY.pack(largest, self._relative(at))
        return True

    def _relative(self, offset: int) -> int:
        """Returns an offset as the index stores it: the low 32 bits if its range is unchecked."""
        return (offset - self._base + _INT32) % _WRAP - _INT32
