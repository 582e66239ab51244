"""Repairs header fields outside the checksum of a batch, where bytes, records or side files prove the right value.

In v2 these are base offset, length, leader epoch and magic (21 bytes), in v0 and v1 offset and length (12 bytes): they
can be damaged while every record is intact.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, NamedTuple

from kseg.errors import PathError
from kseg.formats.message_set import MIN_BYTES
from kseg.formats.record_batch import HEADER_BYTES, OFFSETS_BYTES, offsets_of, parse_header
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT, TIME_INDEX
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OFFSET, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2, V2_CRC
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_WIDTH, be64
from kseg.kernel.records.records import sequence_after
from kseg.limits import MAX_BATCH_BYTES
from kseg.recovery.salvage.segment_draft import SalvagedBatches, batch_of
from kseg.recovery.workspace import MAX_SIDE_FILE_BYTES, Workspace, leading_offset
from kseg.segment.items import Message, RecordBatch
from kseg.segment.reader import crc_holds
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.indexes import EntryFile, OffsetIndex, TimeIndex
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import read_producer_snapshot
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source

_MAX_BYTES = 64 << 20
"""Limit of the bytes read of all snapshots together."""


class _Mark(NamedTuple):
    """The batch of a snapshot's entry. A producer may restart its sequences at 0, but not at the same time."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    offset_delta: int
    timestamp: int


class _Snapshots(NamedTuple):
    """``last_offsets`` of the producers' last batches; ``transactional``: whether each producer writes transactions: a
    marker was seen, or one is open. Batches and producers about which snapshots disagree are missing."""

    last_offsets: dict[_Mark, int]
    transactional: dict[int, bool]


class OffsetEvidence:
    """The evidence in side files of one partition, because no checksum covers the offset of a v1 or v2 batch. Files are
    read on first use; unreadable and too large ones are ignored.

    Producer snapshots have a checksum: a producer's entry proves the offset of its last batch. Offset and time indexes
    have none: they only decide between two batches one of which must be wrong.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._scratch = Scratch()

    @cached_property
    def remembered(self) -> frozenset[tuple[int, int]]:
        """Producer id and largest timestamp of each batch in the snapshots."""
        return frozenset((mark.producer_id, mark.timestamp) for mark in self.snapshots.last_offsets)

    def proven_offset(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset of a batch by the producer snapshots; None if unknown."""
        if not self.snapshots.last_offsets:
            return None
        data = part.leading_bytes(source, min(HEADER_BYTES, part.size))
        if len(data) < HEADER_BYTES or data[ENTRY_MAGIC] < MAGIC_V2:
            return None
        head = parse_header(data)
        delta = part.last - part.first
        last_sequence = sequence_after(head.base_sequence, delta)
        mark = _Mark(head.producer_id, head.producer_epoch, last_sequence, delta, head.max_timestamp)
        last = self.snapshots.last_offsets.get(mark)
        return None if last is None else last - delta

    def indicated_offset(self, source: Source, part: SalvagedBatches) -> int | None:
        """Like `proven_offset`, but also by the indexes of the segment: the offset index, else the time index."""
        for look_up in (self.proven_offset, self._indexed, self._timed):
            found = look_up(source, part)
            if found is not None:
                return found
        return None

    @cached_property
    def snapshots(self) -> "_Snapshots":
        """The contents of the newest snapshots within the limit."""
        offsets, transactional = dict[_Mark, int](), dict[int, bool]()
        several, mixed, left = set[_Mark](), set[int](), _MAX_BYTES
        for name in reversed(self._workspace.names(SNAPSHOT)):
            left -= self._workspace.size(name)
            if left < 0:
                break
            items = list(read_producer_snapshot(self._workspace.read(name)))
            for entry in () if problems_of(items) else entries_of(items):
                mark = _Mark(*entry[:3], entry.offset_delta, entry.timestamp)
                if entry.has_batch and offsets.setdefault(mark, entry.last_offset) != entry.last_offset:
                    several.add(mark)
                is_transactional = max(entry.coordinator_epoch, entry.current_txn_first_offset) >= 0
                if transactional.setdefault(entry.producer_id, is_transactional) != is_transactional:
                    mixed.add(entry.producer_id)
        for mark in several:
            del offsets[mark]
        for producer_id in mixed:
            del transactional[producer_id]
        return _Snapshots(offsets, transactional)

    def _indexed(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset by the offset index. Brokers up to 1.1 index first offsets, later ones the last
        offset of an append. If the entry is neither of the batch, the neighbouring entries decide which of the two it
        is."""
        with _entries(source.path, INDEX, OffsetIndex) as index:
            i = bisect_left(range(len(index)), part.start, key=lambda k: index[k].position)
            if i >= len(index) or index[i].position != part.start:
                return None
            offset = index[i].offset
            if offset in (part.first, part.last):
                return part.first
            beside = [index[k] for k in (i - 1, i + 1) if 0 <= k < len(index)]
            reached = [(reach_at(source, entry.position), entry.offset) for entry in beside]
            for of_last, first in ((1, offset - (part.last - part.first)), (0, offset)):
                if reached and all(found and found[of_last] == known for found, known in reached):
                    return first
            return None

    def _timed(self, source: Source, part: SalvagedBatches) -> int | None:
        """Returns the first offset by the time index. An entry has the last offset of the batch with its timestamp; in
        some releases that of the record."""
        batch = batch_of(source, part, self._scratch)
        timestamp = batch.max_timestamp
        with _entries(source.path, TIME_INDEX, TimeIndex) as index:
            i = bisect_left(range(len(index)), timestamp, key=lambda k: index[k].timestamp)
            if timestamp < 0 or i >= len(index) or index[i].timestamp != timestamp:
                return None
            offset = index[i].offset
            is_here = any(record.offset == offset and record.timestamp == timestamp for record in batch)
            return part.first if is_here or offset == part.last else offset - (part.last - part.first)


@contextmanager
def _entries(path: str, suffix: str, kind: type[EntryFile[Any]]) -> Iterator[EntryFile[Any] | tuple[()]]:
    """Yields the entries of the index of a .log with that suffix; none if it is missing or unreadable."""
    index_path, source = Place(path).with_ending(LOG, suffix), None
    with suppress(OSError, PathError):
        if path.endswith(LOG) and index_path.size() <= MAX_SIDE_FILE_BYTES:
            source = open_source(index_path)
    with source or nullcontext() as opened:
        yield () if opened is None else kind(opened.buffer, leading_offset(os.path.basename(path)) or 0)


def reach_at(source: Source, position: int) -> tuple[int, int] | None:
    """Returns first and last offset by the bytes of a header; for v0 and v1 the last one twice."""
    if not 0 <= position <= source.size - OFFSETS_BYTES:
        return None
    return offsets_of(bytes(source.buffer[position : position + OFFSETS_BYTES]))


_LARGE_OFFSET = 1 << 40
_MIN_OFFSET = -(1 << 62)
"""Last offsets below this cannot be counted back from; they are as wrong as negative ones."""


class CompressedMessages:
    """The compressed v0 and v1 messages of one file, whose first offset is known only after decompression.

    ``has_holes``: whether any had fewer records than offsets, as the log cleaner leaves them.
    """

    def __init__(self, source: Source, scratch: Scratch) -> None:
        self._source, self._scratch, self.has_holes = source, scratch, False

    def open(self, headers: HeaderRows, before: int) -> dict[int, bytes]:
        """Fills in the first offsets of batches, which follow an offset. Returns repaired first bytes by position:
        those of messages with a wrong offset.

        Inside v0 messages, offsets are absolute and checksummed. They also prove the last offset, unless they count
        from 0, as in messages that no broker has written.
        """
        heads: dict[int, bytes] = {}
        if -1 not in headers.firsts:
            return heads
        for i, row in enumerate(headers):
            if not row.has_right_crc:
                continue
            if row.first_offset == -1 and row.magic < MAGIC_V2:
                first, last = self.offsets(row.position, row.size, row.magic)
                is_known = row.magic == 0 and first <= last and (first > 0 or before < 0)
                if is_known and last != row.last_offset:
                    heads[row.position] = last.to_bytes(8, "big")
                    row = row._replace(last_offset=last)
                last = max(row.last_offset, _MIN_OFFSET)
                row = row._replace(first_offset=min(first, last), last_offset=last)
                headers[i] = row
            before = row.last_offset
        return heads

    def offsets(self, position: int, size: int, magic: int, head: bytes = b"") -> tuple[int, int]:
        """Returns the first and last offset of a compressed message; those of its header if it cannot be decompressed.

        ``head`` replaces its first bytes.
        """
        data = head + bytes(self._source.buffer[position + len(head) : position + size])
        message = Message(data, position, size, magic, True, self._scratch)
        found, own = reach(message), message.last_offset
        if magic == 1 and (found is None or found[1] != own):
            # Inside v1 messages, offsets are relative to the message's own, which may be too small to count back from.
            data = _LARGE_OFFSET.to_bytes(8, "big") + data[8:]
            if (found := reach(Message(data, position, size, 1, True, self._scratch))) is not None:
                own = max(own, _MIN_OFFSET)
                found = own - (found[1] - found[0]), own, found[2]
        if found is None:
            return own, own
        self.has_holes |= found[1] - found[0] >= found[2]
        return found[:2]


def offsets_inside(source: Source, part: SalvagedBatches) -> tuple[int, int] | None:
    """Returns the first and last offset of a compressed v0 message, which its checksum covers; None for others."""
    message = batch_of(source, part, Scratch())
    if message.magic != 0 or not message.header.codec:
        return None
    found = reach(message)
    return found[:2] if found and (found[0] > 0 or found[1] == message.last_offset) else None


def reach_of(source: Source, part: SalvagedBatches, scratch: Scratch) -> tuple[int, int, int] | None:
    """As `reach`, of a part of one batch."""
    return reach(batch_of(source, part, scratch))


def reach(batch: Message | RecordBatch) -> tuple[int, int, int] | None:
    """Returns the first record's offset, the last one's, and the record count; None for undecodable records."""
    first = last = None
    records = 0
    try:
        for rows in batch.rows():
            first = rows.rows[ROW_OFFSET] if first is None else first
            last = rows.rows[(rows.count - 1) * ROW_WIDTH + ROW_OFFSET]
            records += rows.count
    except UndecodableError:
        return None
    return None if first is None or last is None else (first, last, records)


_OFFSET_BITS = 63


def with_right_header(source: Source, position: int, size: int) -> bytes | None:
    """Returns the first bytes, with right length and magic, of the single batch that a broken range is; None if it is
    no batch.

    Offset and leader epoch are unchanged.
    """
    if not MIN_BYTES <= size <= MAX_BATCH_BYTES:
        return None
    head, length = bytes(source.buffer[position : position + V2_CRC]), (size - ENTRY_OVERHEAD).to_bytes(4, "big")
    if head[ENTRY_MAGIC] < MAGIC_V2 and crc_holds(source.buffer, position, position + size):
        return head[:ENTRY_SIZE] + length
    if size > HEADER_BYTES and crc_holds(source.buffer, position, position + size, is_v2=True):
        return head[:ENTRY_SIZE] + length + head[ENTRY_OVERHEAD:ENTRY_MAGIC] + b"\2"
    return None


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
    head = part.leading_bytes(source, V2_CRC)
    return head if head[ENTRY_MAGIC] >= MAGIC_V2 else head[:ENTRY_OVERHEAD]


def fingerprint(source: Source, part: SalvagedBatches) -> bytes:
    """Returns checksum and size of a batch; equal only for copies of one batch, wherever they are."""
    at = part.start + len(first_bytes(source, part))
    return bytes(source.buffer[at : at + 4]) + part.size.to_bytes(8, "big")
