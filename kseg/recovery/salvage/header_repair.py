"""Repairs header fields outside the checksum of a batch, where the right value can be proven.

In v2 these are base offset, length, leader epoch and magic (21 bytes), in v0 and v1 offset and length (12 bytes): they
can be damaged while every record is intact.
"""

from typing import overload

from kseg.formats import message_set
from kseg.formats.message_set import MIN_BYTES
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import BytesFrom, BytesLike, Scratch, UndecodableError
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    MAGIC_V2,
    V2_CRC,
    V2_LAST_OFFSET_DELTA,
)
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
    be32,
    be64,
)
from kseg.limits import MAX_BATCH_BYTES
from kseg.recovery.salvage.parts import SalvagedBatches, leading_bytes
from kseg.segment.batches import Message
from kseg.segment.damage import crc_holds
from kseg.segment.items import Damage
from kseg.segment.survey import HeaderRows
from kseg.stores.source import Source

# Determines the offsets of compressed v0 and v1 messages, whose first offset is known only after decompression.

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

    def open(self, headers: HeaderRows, before: int) -> dict[int, tuple[bytes, str]]:
        """Fills in the first offsets of batches, which follow an offset. Returns repaired first bytes and the
        reason, by position.

        Inside v0 messages, offsets are absolute and checksummed. They also prove the last offset, unless they count
        from 0, as in messages that no broker has written.
        """
        heads: dict[int, tuple[bytes, str]] = {}
        rows = headers.rows
        firsts = headers.column(BATCH_FIRST_OFFSET)
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


_OFFSET_BITS = 63


def with_right_header(source: Source, damage: Damage) -> bytes | None:
    """Returns the first bytes, with right length and magic, of the single batch that a damaged range is; None if it is
    no batch.

    Offset and leader epoch are unchanged.
    """
    if not MIN_BYTES <= damage.length <= MAX_BATCH_BYTES:
        return None
    head = bytes(source.buffer[damage.position : damage.position + V2_CRC])
    length = (damage.length - ENTRY_OVERHEAD).to_bytes(4, "big")
    if head[ENTRY_MAGIC] < MAGIC_V2 and crc_holds(source.buffer, damage.position, damage.end):
        return head[:ENTRY_SIZE] + length
    if damage.length > HEADER_BYTES and crc_holds(_WithMagic2(source.buffer, damage.position), 0, damage.length):
        return head[:ENTRY_SIZE] + length + head[ENTRY_OVERHEAD:ENTRY_MAGIC] + b"\2"
    return None


def with_right_magic(source: Source, position: int, size: int) -> bytes | None:
    """Returns the first 17 bytes of a v2 batch whose magic is wrong; None if it is no such batch."""
    if size <= HEADER_BYTES or source.buffer[position + ENTRY_MAGIC] == MAGIC_V2:
        return None
    if not crc_holds(_WithMagic2(source.buffer, position), 0, size):
        return None
    return bytes(source.buffer[position : position + ENTRY_MAGIC]) + b"\2"


class _WithMagic2(BytesFrom):
    """A batch whose magic byte reads as 2. The magic is read alone, all else in slices."""

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> BytesLike: ...

    def __getitem__(self, key: int | slice, /) -> int | BytesLike:
        return MAGIC_V2 if key == ENTRY_MAGIC else super().__getitem__(key)


def with_first_offset(data: bytes, first: int, last: int) -> bytes:
    """Returns the first 8 bytes of a batch with offsets ``first`` to ``last``; ``data``: at least its first 17 bytes.

    A compressed v0 or v1 message stores its last offset, all other batches store their first.
    """
    return (last if data[ENTRY_MAGIC] < MAGIC_V2 else first).to_bytes(8, "big", signed=True)


def only_one_bit_away(source: Source, part: SalvagedBatches, low: int, high: int) -> int:
    """Returns the first offset of `one_bit_away`, -1 if there is none or more than one."""
    found = one_bit_away(source, part, low, high)
    return found[0] if len(found) == 1 else -1


def one_bit_away(source: Source, part: SalvagedBatches, low: int, high: int) -> list[int]:
    """Returns the first offsets between ``low`` and ``high`` that differ from the batch's own in one bit."""
    head = first_bytes(source, part)
    base, span = be64(head, ENTRY_OFFSET), part.last - part.first
    found = (part.first + (base ^ (1 << bit)) - base for bit in range(_OFFSET_BITS))
    return [first for first in found if low < first and first + span < high]


def first_bytes(source: Source, part: SalvagedBatches) -> bytes:
    """Returns the bytes of a batch that its checksum does not cover, at its start."""
    head = leading_bytes(source, part, V2_CRC)
    return head if head[ENTRY_MAGIC] >= MAGIC_V2 else head[:ENTRY_OVERHEAD]


def fingerprint(source: Source, part: SalvagedBatches) -> bytes:
    """Returns checksum and size of a batch; equal only for copies of one batch, wherever they are."""
    at = part.start + len(first_bytes(source, part))
    return bytes(source.buffer[at : at + 4]) + part.size.to_bytes(8, "big")


def offsets_of(head: bytes) -> tuple[int, int]:
    """Returns first and last offset by the header of a v2 batch or an uncompressed message."""
    first = be64(head, ENTRY_OFFSET)
    return (first, first + be32(head, V2_LAST_OFFSET_DELTA)) if head[ENTRY_MAGIC] >= MAGIC_V2 else (first, first)
