"""Builds the offset and time index of one segment from batch headers (`kseg.kernel.state.indexing`).

The entries are those that brokers since 3.9.1 write on append, and those of the cleaner and of recovery.
"""

from struct import Struct

from kseg.kernel.state import indexing
from kseg.kernel.state.indexing import DONE

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
_INT32, _WRAP = 1 << 31, 1 << 32


class SegmentIndexes:
    """``offsets`` and ``times`` are the bytes of the two indexes so far.

    For ``uses_first_offset``, ``has_times`` and ``takes_any`` see `kseg.kernel.state.indexing`.
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
        self._state = indexing.IndexBuild(base_offset, interval_bytes, uses_first_offset, has_times, takes_any)
        self.offsets, self.times = bytearray(), bytearray()
        self._entries, self._stamps = memoryview(b""), memoryview(b"")

    @property
    def largest_timestamp(self) -> int:
        """In ms, -1 if there is none."""
        return int(self._state.largest_timestamp)

    def take(self, rows: memoryview, count: int) -> tuple[int, int]:
        """Adds the entries of ``count`` batches (rows BATCH_*); returns a status of `kseg.kernel.state.indexing` and
        the number of batches added."""
        state = self._state
        if len(self._entries) < count * OFFSET_ENTRY.size:
            self._entries = memoryview(bytearray(count * OFFSET_ENTRY.size))
            self._stamps = memoryview(bytearray(count * TIME_ENTRY.size))
        status = indexing.index(rows, count, state, self._entries, self._stamps)
        self.offsets += self._entries[: state.offsets * OFFSET_ENTRY.size]
        self.times += self._stamps[: state.times * TIME_ENTRY.size]
        return status, count if status == DONE else state.row

    def finish(self) -> bool:
        """Adds the last entry of the time index; returns False if its offset is below the previous entry's."""
        state = self._state
        largest, at = state.largest_timestamp, state.largest_timestamp_offset
        if not state.has_times or largest <= state.last_timestamp:
            return True
        if at < state.last_time_offset:
            return False
        self.times += TIME_ENTRY.pack(largest, self._relative(at))
        return True

    def _relative(self, offset: int) -> int:
        """Returns an offset as the index stores it: the low 32 bits if its range is unchecked."""
        return (offset - self._base + _INT32) % _WRAP - _INT32
