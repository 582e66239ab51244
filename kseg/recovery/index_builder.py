"""The offset and time index of one segment, built from its batches as a broker's recovery builds them."""

from collections.abc import Callable
from struct import Struct

from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.kernel import indexing
from kseg.kernel.indexing import DONE
from kseg.kernel.native import BATCH_FIRST_OFFSET, BATCH_MAGIC, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, ROW_OFFSET
from kseg.recovery.eras import Era
from kseg.recovery.refusal import BrokerRefusesError
from kseg.segment.batches import Message
from kseg.segment.survey import Headers

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
_INT32, _WRAP = 1 << 31, 1 << 32


class IndexBuilder:
    """``offsets`` and ``times`` are the bytes of the two indexes so far."""

    def __init__(self, base_offset: int, interval_bytes: int, era: Era) -> None:
        self._base = base_offset
        self._era = era
        self._scratch: list[Scratch] = []  # one, when a message is to be opened
        self._state = state = int64s(indexing.STATE_WIDTH)
        state[indexing.INTERVAL], state[indexing.BASE] = interval_bytes, base_offset
        for column in (
            indexing.LARGEST_TIMESTAMP, indexing.LARGEST_TIMESTAMP_OFFSET, indexing.LAST_OFFSET,
            indexing.LAST_TIMESTAMP, indexing.LAST_TIME_OFFSET,
        ):  # fmt: skip
            state[column] = -1
        state[indexing.USES_FIRST_OFFSET], state[indexing.HAS_TIMES] = era.uses_first_offset, era.has_time_index
        state[indexing.TAKES_ANY] = not era.checks_range
        self.offsets, self.times = bytearray(), bytearray()

    def add(self, headers: Headers, read: Callable[[int, int], bytes]) -> tuple[int, int]:
        """A status of `kseg.kernel.indexing`, and how many of the batches were taken.

        ``read`` gives bytes of the .log by position and length. Raises BrokerRefusesError where a broker has to open a
        message for its first offset, and cannot.
        """
        if self._era.uses_first_offset:
            self._open_messages(headers, read)
        state, pairs, stamps = self._state, int64s(2 * headers.count), int64s(2 * headers.count)
        status = indexing.index(headers.rows, headers.count, state, pairs, stamps)
        for i in range(state[indexing.OFFSETS]):
            self.offsets += OFFSET_ENTRY.pack(self._relative(pairs[2 * i]), pairs[2 * i + 1])
        for i in range(state[indexing.TIMES]):
            self.times += TIME_ENTRY.pack(stamps[2 * i], self._relative(stamps[2 * i + 1]))
        return status, headers.count if status == DONE else state[indexing.ROW]

    def finish(self) -> bool:
        """Adds the last entry of the time index; False where the index refuses it, as its offset is too low."""
        state = self._state
        largest, at = state[indexing.LARGEST_TIMESTAMP], state[indexing.LARGEST_TIMESTAMP_OFFSET]
        if not self._era.has_time_index or largest <= state[indexing.LAST_TIMESTAMP]:
            return True
        if at < state[indexing.LAST_TIME_OFFSET]:
            return False
        self.times += TIME_ENTRY.pack(largest, self._relative(at))
        return True

    def _relative(self, offset: int) -> int:
        """An offset as the index holds it: where nothing checks its range, the low 32 bits."""
        return (offset - self._base + _INT32) % _WRAP - _INT32

    def _open_messages(self, headers: Headers, read: Callable[[int, int], bytes]) -> None:
        """Finds the first offset of compressed v0 and v1 messages that will be indexed."""
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        if min(rows[BATCH_FIRST_OFFSET:end:BATCH_WIDTH].tolist()) >= 0:
            return
        last, interval = self._state[indexing.LAST_POSITION], self._state[indexing.INTERVAL]
        for i, position in enumerate(rows[BATCH_POSITION:end:BATCH_WIDTH].tolist()):
            if position - last <= interval:
                continue
            last, at = position, i * BATCH_WIDTH
            if rows[at + BATCH_FIRST_OFFSET] < 0 and rows[at + BATCH_MAGIC] < 2:
                self._scratch = self._scratch or [Scratch()]
                data = read(position, rows[at + BATCH_SIZE])
                rows[at + BATCH_FIRST_OFFSET] = first_offset_of(data, position, rows[at + BATCH_MAGIC], *self._scratch)


def first_offset_of(data: bytes, position: int, magic: int, scratch: Scratch) -> int:
    """Offset of the first record of a v0 or v1 message. Raises BrokerRefusesError where it cannot be opened."""
    try:
        message = Message(data, position, len(data), magic, True, scratch)
        for found in message.rows():
            if found.count:
                return int(found.rows[ROW_OFFSET])
    except UndecodableError:
        pass  # told below, as for a message that holds none
    raise BrokerRefusesError(f"the message at position {position} cannot be opened, for which a broker does not start")
