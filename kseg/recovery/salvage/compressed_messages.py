"""Determines the offsets of compressed v0 and v1 messages, whose first offset is known only after decompression."""

from kseg.formats import message_set
from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
    ROW_OFFSET,
    ROW_WIDTH,
)
from kseg.recovery.salvage.parts import SalvagedBatches
from kseg.segment.batches import Message
from kseg.stores.source import Source

_LARGE_OFFSET = 1 << 40
_MIN_OFFSET = -(1 << 62)
"""Last offsets below this cannot be counted back from; they are as wrong as negative ones."""


class CompressedMessages:
    """The compressed messages of one file."""

    def __init__(self, source: Source, scratch: Scratch) -> None:
        self._source = source
        self._scratch = scratch
        self.has_holes = False
        """Whether any had fewer records than offsets, as the log cleaner leaves them."""

    def open(self, rows: memoryview, count: int, before: int) -> "dict[int, tuple[bytes, str]]":
        """Fills in the first offsets of batches in rows, which follow an offset. Returns repaired first bytes and the
        reason, by position.

        Inside v0 messages, offsets are absolute and checksummed. They also prove the last offset, unless they count
        from 0, as in messages that no broker has written.
        """
        heads: dict[int, tuple[bytes, str]] = {}
        firsts = rows[BATCH_FIRST_OFFSET : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        if -1 not in firsts:
            return heads
        for row, first in enumerate(firsts):
            at = row * BATCH_WIDTH
            if not rows[at + BATCH_STATE] & CRC_RIGHT:
                continue
            if first == -1 and (magic := rows[at + BATCH_MAGIC]) < MAGIC_V2:
                first, last = self.offsets(rows[at + BATCH_POSITION], rows[at + BATCH_SIZE], magic)
                is_known = magic == 0 and first <= last and (first > 0 or before < 0)
                if is_known and last != rows[at + BATCH_LAST_OFFSET]:
                    heads[rows[at + BATCH_POSITION]] = (last.to_bytes(8, "big"), "the offset of the set was repaired")
                    rows[at + BATCH_LAST_OFFSET] = last
                rows[at + BATCH_LAST_OFFSET] = max(rows[at + BATCH_LAST_OFFSET], _MIN_OFFSET)
                rows[at + BATCH_FIRST_OFFSET] = min(first, rows[at + BATCH_LAST_OFFSET])
            before = rows[at + BATCH_LAST_OFFSET]
        return heads

    def offsets(self, position: int, size: int, magic: int, head: bytes = b"") -> tuple[int, int]:
        """Returns the first and last offset of a compressed message; those of its header if it cannot be decompressed.

        ``head`` replaces its first bytes.
        """
        data = head + bytes(self._source.buffer[position + len(head) : position + size])
        message = Message(data, position, size, magic, True, self._scratch)
        found = self._reach(message)
        if magic == 1 and (found is None or found[1] != message.last_offset):
            # Inside v1 messages, offsets are relative to the message's own, which may be too small to count back from.
            data = _LARGE_OFFSET.to_bytes(8, "big") + data[8:]
            found = self._reach(Message(data, position, size, 1, True, self._scratch))
            if found is not None:
                last = max(message.last_offset, _MIN_OFFSET)
                return last - (found[1] - found[0]), last
        return found or (message.last_offset, message.last_offset)

    def _reach(self, message: Message) -> tuple[int, int] | None:
        found = reach(message)
        if found is None:
            return None
        first, last, records = found
        self.has_holes |= last - first >= records
        return first, last


def offsets_inside(source: Source, part: SalvagedBatches) -> tuple[int, int] | None:
    """Returns the first and last offset of a compressed v0 message, whose checksum covers its records' offsets; None
    for all other batches."""
    data = part.head + bytes(source.buffer[part.start + len(part.head) : part.end])
    if data[ENTRY_MAGIC] != 0 or not message_set.parse_header(data).codec:
        return None
    message = Message(data, 0, len(data), 0, True, Scratch())
    found = reach(message)
    return found[:2] if found and (found[0] > 0 or found[1] == message.last_offset) else None


def reach(message: Message) -> tuple[int, int, int] | None:
    """Returns first offset, last offset and record count of a compressed message; None if it cannot be decompressed."""
    first = last = None
    records = 0
    try:
        for rows in message.rows():
            first = rows.rows[ROW_OFFSET] if first is None else first
            last = rows.rows[(rows.count - 1) * ROW_WIDTH + ROW_OFFSET]
            records += rows.count
    except UndecodableError:
        return None
    return None if first is None or last is None else (first, last, records)
