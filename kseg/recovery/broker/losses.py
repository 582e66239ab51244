"""What a recovery removes and what it leaves: intact batches in removed bytes, and damage that stays in the log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kseg.changes.accepted_gaps import accepted_gaps
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
from kseg.kernel.scan import headers as chain
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.recovery.broker.segments import BrokerSegment
from kseg.segment.batches import Message
from kseg.segment.items import Damage
from kseg.segment.reader import UNREADABLE, crc_holds, open_segment
from kseg.segment.survey import HeaderRows, inspect
from kseg.stores.source import Source, open_source, unreadable_error

# Finds damage that a broker's recovery leaves in a log, from the headers of the kept batches.
#
# The headers come from the scan of segments; nothing more is read. Segments that are not scanned, and records under
# right checksums, are not checked: `kseg.verification` does that.

MAX_EVENTS_PER_KIND = 3
"""Limit of listed problems of one kind per segment."""

GAP = "gap-unexplained"
_CODES = {
    chain.GAP: (GAP, "does not go on from the one before it"),
    chain.NOT_RISING: ("batch-out-of-order", "does not begin behind the one before it"),
    chain.WRONG_OFFSET: ("wrong-base-offset", "has a base offset that does not fit its neighbours"),
    chain.OUTSIDE: ("offset-outside-segment", "has an offset that its segment cannot hold"),
    chain.COUNT: ("count-mismatch", "claims more records than it has offsets for"),
}


class Remaining(NamedTuple):
    """A problem of the batch at ``position``, with the code of verify; ``offset`` is -1 if unknown.

    ``missing``: first and last offset of a gap before the batch.
    """

    file: str
    position: int
    offset: int
    code: str
    text: str
    missing: tuple[int, int] | None = None


class SegmentRemains:
    """The problems found by a scan of one segment."""

    def __init__(self, segment: BrokerSegment) -> None:
        self.file = segment.log
        events = int64s(MAX_EVENTS_PER_KIND * chain.KINDS * EVENT_WIDTH)
        self._chain = chain.Chain(segment.base_offset, limit=MAX_EVENTS_PER_KIND, rows=events)
        self.found: list[Remaining] = []

    def add(self, headers: HeaderRows) -> None:
        """Adds batches. Those that a broker reads as v2 despite their magic come one at a time (`AcceptedBatches`)."""
        first = headers[0]
        if first.magic > MAGIC_V2 and len(self.found) < MAX_EVENTS_PER_KIND:
            text = f"names no format in its magic, which is {first.magic}"
            self.found.append(Remaining(self.file, first.position, first.first_offset, "bad-magic", text))
        chain.follow(headers.rows, headers.count, self._chain)
        for kind, i, a, b, _ in self._chain.written():
            if kind in _CODES:
                row = headers[i]
                offset = row.first_offset if row.first_offset >= 0 else row.last_offset
                missing = (a, b - 1) if kind == chain.GAP else None
                self.found.append(Remaining(self.file, row.position, offset, *_CODES[kind], missing))

    @property
    def last_offset(self) -> int:
        return int(self._chain.last_offset)

    @property
    def is_thinned(self) -> bool:
        """Whether batches have fewer records than offsets, as a log cleaner leaves them."""
        return bool(self._chain.sparse > 0)


def remaining(directory: str, bases: Iterable[int], scanned: Mapping[int, SegmentRemains]) -> list[Remaining]:
    """Returns the problems in the scanned segments among those with these bases, and between them.

    Leaves out accepted gaps, and all gaps if the batches show that the log was compacted.
    """
    bases = sorted(bases)
    found = [one for base in bases if base in scanned for one in scanned[base].found]
    for before, base in pairwise(bases):  # between a scanned segment and the next one
        if before in scanned and base in scanned:
            last, file = max(scanned[before].last_offset, before - 1), scanned[base].file
            if base <= last:
                text = "starts below the end of the previous segment"
                found.append(Remaining(file, 0, base, "segments-overlap", text))
            elif base > last + 1:
                found.append(Remaining(file, 0, base, *_CODES[chain.GAP], (last + 1, base - 1)))
    if any(one.missing for one in found):
        is_thinned = any(scanned[base].is_thinned for base in bases if base in scanned)
        missing = sorted(one.missing for one in found if one.missing)
        accepted = accepted_gaps(directory).among(missing, bases[0])
        found = [one for one in found if not one.missing or not (is_thinned or one.missing in accepted)]
    return sorted(found)


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


@dataclass(slots=True)
class Cut:
    """``length`` bytes removed at the end of ``file``, from ``position`` on. ``next_offset``: the log end afterwards;
    ``dropped``: the .log files of later segments, which are deleted; ``loss``: the intact batches in all of these."""

    file: str
    position: int
    length: int
    next_offset: int
    dropped: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)


def lost_behind(path: str, position: int) -> Loss:
    """Returns the loss from a position of a .log on. Raises PathError if the file, or some of its bytes, cannot be
    read."""
    found, state = Loss(), chain.Chain()
    with open_segment(path) as reader:
        if position:
            reader.begin_at(position)
        for number, item in enumerate(reader.runs()):
            if isinstance(item, Damage):
                if item.code == UNREADABLE:
                    raise unreadable_error(path, reader.source.unreadable)
                found.code = item.code if number == 0 else found.code
                continue
            rows = int64s(item.count * BATCH_WIDTH)
            chain.read(reader.buffer, item.rows, item.count, False, 0, rows)
            if number == 0 and not rows[BATCH_STATE] & CRC_RIGHT:
                found.code = "crc-mismatch"
            for i, at in enumerate(range(0, item.count * BATCH_WIDTH, BATCH_WIDTH)):
                # The headers of compressed messages of v0 and v1 lack their first offset and count.
                if rows[at + BATCH_COUNT] < 0 and rows[at + BATCH_STATE] & CRC_RIGHT:
                    seen = inspect(reader.batch(item, i, keep=False), reader.scratch)
                    rows[at + BATCH_COUNT] = seen.count
                    if seen.first_offset is not None:
                        rows[at + BATCH_FIRST_OFFSET] = seen.first_offset
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
