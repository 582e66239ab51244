"""Reads the dirty part of a log into the offset map (Cleaner.buildOffsetMap)."""

from collections.abc import Callable, Sequence

from kseg.cleaner.log import TRANSACTION_INDEX, Segment, aborted_between, segments_between
from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordRooms, open_message, open_records, refuse
from kseg.cleaner.reading import Window, windows
from kseg.cleaner.transactions import CleanedTransactions, as_verdicts
from kseg.formats.rows import int64s
from kseg.kernel import keys
from kseg.kernel.native import BATCH_LAST_OFFSET, BATCH_MAGIC, BATCH_WIDTH
from kseg.segment.buffers import Buffers


class MapBuilder:
    """Fills ``offset_map`` with the keys of offsets [start, end); ``end`` is the base of a segment or the log's end."""

    def __init__(
        self,
        offset_map: OffsetMap,
        start: int,
        rooms: RecordRooms,
        advance: Callable[[int], None] = lambda _: None,
        transactions: CleanedTransactions | None = None,
    ) -> None:
        """``advance`` is told of bytes that are read; ``transactions``: what is known of them where it begins."""
        self._advance = advance
        self._map, self._start, self._rooms = offset_map, start, rooms
        self._transactions = transactions or CleanedTransactions()

    def build(self, segments: Sequence[Segment], end: int, buffers: Buffers) -> int:
        """The first offset that is not in the map. Raises DamagedError."""
        dirty = segments_between(segments, self._start, end)
        with_aborted = [segment for segment in segments if TRANSACTION_INDEX in segment.paths]
        self._transactions.add(aborted_between(with_aborted, self._start, end))
        for i, segment in enumerate(dirty):
            if not self.take(segment, buffers):
                return self._map.latest_offset + 1
            behind = dirty[i + 1].base_offset if i + 1 < len(dirty) else end
            self._map.latest_offset = max(behind - 1, self._map.latest_offset)
        return self._map.latest_offset + 1

    def take(self, segment: Segment, buffers: Buffers) -> bool:
        """Takes up a segment; False where the map is full. Raises DamagedError."""
        for window in windows(segment.path, buffers):
            if not self._take(window):
                return False
            self._advance(window.size)
        return True

    def _take(self, window: Window) -> bool:
        """Takes up the batches of a window; False where the map is full."""
        rooms, state = self._rooms, int64s(8)
        verdicts = as_verdicts(self._transactions.discardable(window.rows, window.count), window.count)
        opened: bytes | memoryview | None = None
        while True:
            status = keys.read(
                window.data, window.rows, window.count, verdicts, self._start, self._map.secret, rooms.rows,
                rooms.hashes, rooms.offsets, state, rooms.room, opened,
            )  # fmt: skip
            opened, i = None, state[keys.BATCH]
            if status == keys.BAD:
                refuse(window, i, state[keys.REASON])
            if not self._put(window, state):
                return False
            if status == keys.DONE:
                return True
            if status == keys.ROWS:
                rooms.widen(state[keys.NEEDED])
            elif status == keys.OPEN or (status == keys.ROOM and not rooms.expand(window, i)):
                if window.rows[i * BATCH_WIDTH + BATCH_MAGIC] < 2:
                    if not self._take_message(window, i):
                        return False
                    state[keys.BATCH] = i + 1
                else:
                    opened = open_records(window, i, rooms)

    def _put(self, window: Window, state: memoryview) -> bool:
        """Puts the keys that were read; False where the map is full."""
        count, offsets = state[keys.KEYS], self._rooms.offsets
        state[keys.KEYS] = 0
        taken = self._map.put(self._rooms.hashes, offsets, count)
        if taken < count:
            self._end_before(window, offsets[taken])
            if taken:
                self._map.latest_offset = max(self._map.latest_offset, offsets[taken - 1])
            return False
        self._end_before(window, None, state[keys.BATCH])
        return True

    def _end_before(self, window: Window, offset: int | None, batches: int | None = None) -> None:
        """Notes how far the map has come: the last batch that ends before an offset, or the last of so many."""
        count = window.count if batches is None else batches
        ends = window.rows[BATCH_LAST_OFFSET : count * BATCH_WIDTH : BATCH_WIDTH].tolist() if count else []
        if offset is not None:
            ends = [end for end in ends if end < offset]
        if ends and ends[-1] >= self._start:
            self._map.latest_offset = max(self._map.latest_offset, ends[-1])

    def _take_message(self, window: Window, i: int) -> bool:
        """A message v0 or v1; False where the map is full."""
        for record in open_message(window, i, self._rooms):
            if record.key is None or record.offset < self._start:
                continue
            if not self._map.put_key(record.key, record.offset):
                self._end_before(window, record.offset)
                return False
            self._map.latest_offset = max(self._map.latest_offset, record.offset)
        return True
