"""Counts the intact batches in bytes that a recovery removes; salvage would keep them."""

from collections.abc import Sequence
from dataclasses import dataclass

from kseg.formats.message_set import MIN_BYTES
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    MAGIC_V2,
    V2_COUNT,
    V2_LAST_OFFSET_DELTA,
)
from kseg.kernel.layout.rows import BATCH_COUNT, BATCH_FIRST_OFFSET, BATCH_STATE, BATCH_WIDTH, CRC_RIGHT, be32, be64
from kseg.kernel.scan import chain, headers
from kseg.segment.batches import Message
from kseg.segment.damage import crc_holds
from kseg.segment.inspection import inspect
from kseg.segment.items import Damage
from kseg.segment.reader import UNREADABLE, Run, SegmentReader
from kseg.stores.source import Source, open_source
from kseg.stores.unreadable import unreadable_error


@dataclass(slots=True)
class Loss:
    """The removed intact batches: ``first_offset`` to ``last_offset``, timestamps in ms; -1 if there are none.

    ``code``: the damage at the start of the removed range, "" if an intact batch begins there.
    """

    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1
    code: str = ""

    @property
    def offsets(self) -> tuple[int | None, int | None]:
        """The first and last lost offset, None if there are none."""
        return (self.first_offset, self.last_offset) if self.first_offset >= 0 else (None, None)

    def add(self, other: "Loss") -> None:
        """Adds a loss that follows this one."""
        self.batches += other.batches
        self.records += other.records
        if other.first_offset >= 0:
            self.first_offset = other.first_offset if self.first_offset < 0 else self.first_offset
            self.last_offset = max(self.last_offset, other.last_offset)
        if other.first_timestamp >= 0:
            known = self.first_timestamp if self.first_timestamp >= 0 else other.first_timestamp
            self.first_timestamp = min(known, other.first_timestamp)
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)


def lost_behind(path: str, position: int) -> Loss:
    """Returns the loss from a position of a .log on. Raises PathError if the file, or some of its bytes, cannot be
    read."""
    found, state = Loss(), chain.Chain()
    with open_source(path) as source:
        reader = SegmentReader(source, scratch=Scratch())
        if position:
            reader.begin_at(position)
        for number, item in enumerate(reader.runs()):
            if isinstance(item, Damage):
                if item.code == UNREADABLE:
                    raise unreadable_error(path, source.unreadable)
                found.code = item.code if number == 0 else found.code
                continue
            rows = int64s(item.count * BATCH_WIDTH)
            headers.read(reader.buffer, item.rows, item.count, False, 0, rows)
            if number == 0 and not rows[BATCH_STATE] & CRC_RIGHT:
                found.code = "crc-mismatch"
            _open_message_sets(reader, item, rows)
            chain.follow(rows, item.count, state)
    found.batches = state.v0 + state.v1 + state.v2
    found.records = state.records
    if found.batches:
        found.first_offset, found.last_offset = state.first_offset, state.last_offset
    found.first_timestamp, found.last_timestamp = state.least_timestamp, state.largest_timestamp
    return found


def intact_in(path: str, ranges: Sequence[Damage], scratch: Scratch) -> list[Loss]:
    """Returns the intact batches at the start of each of these ranges of a file. Raises PathError if the file cannot
    be read."""
    if not ranges:
        return []
    with open_source(path) as source:
        proven_end = 0 if source.proven is None else source.proven.end
        behind = source.behind_proven() if min(range_.position for range_ in ranges) >= proven_end else source
        return [_intact_in(behind, range_, scratch) for range_ in ranges]


def _intact_in(source: Source, range_: Damage, scratch: Scratch) -> Loss:
    found, start = Loss(), range_.position
    while start + MIN_BYTES <= range_.end:
        head = bytes(source.buffer[start : start + HEADER_BYTES])
        end = start + be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        is_v2 = head[ENTRY_MAGIC] == MAGIC_V2
        is_whole = start + (HEADER_BYTES if is_v2 else MIN_BYTES) <= end <= range_.end and head[ENTRY_MAGIC] <= MAGIC_V2
        if not is_whole or not crc_holds(source.buffer, start, end):
            break
        first = last = be64(head, ENTRY_OFFSET)
        if is_v2:
            last, records = first + be32(head, V2_LAST_OFFSET_DELTA), be32(head, V2_COUNT)
        else:
            data = bytes(source.buffer[start:end])
            seen = inspect(Message(data, 0, len(data), data[ENTRY_MAGIC], True, scratch), scratch)
            first, records = first if seen.first_offset is None else seen.first_offset, seen.count
        found.add(Loss(1, max(records, 0), max(first, 0), max(last, 0)))
        start = end
    return found


def _open_message_sets(reader: SegmentReader, run: Run, rows: memoryview) -> None:
    """Fills in the first offset and count of compressed messages of v0 and v1, which their headers lack."""
    for i in range(run.count):
        at = i * BATCH_WIDTH
        if rows[at + BATCH_COUNT] < 0 and rows[at + BATCH_STATE] & CRC_RIGHT:
            seen = inspect(reader.batch(run, i, keep=False), reader.scratch)
            rows[at + BATCH_COUNT] = seen.count
            if seen.first_offset is not None:
                rows[at + BATCH_FIRST_OFFSET] = seen.first_offset
