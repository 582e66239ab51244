"""Checks index entries against the segment's .log, as kafka-dump-log does (DumpLogSegments.dumpIndex, dumpTimeIndex).

Reads only what an entry points at. For an offset index entry this is the batch header at its position. For a time
index entry these are the headers from the position that the offset index gives up to the batch with the entry's
offset, and the records of that batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats import message_set, record_batch
from kseg.formats.rows import Scratch, Sliceable, UndecodableError
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    MAGIC_V2,
    V1_TIMESTAMP_BYTES,
    V2_LAST_OFFSET_DELTA,
)
from kseg.kernel.layout.rows import ROW_TIMESTAMP, ROW_WIDTH, be32, be64
from kseg.kernel.scan.plausibility import SHORT_TAIL_BYTES
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.segment.batches import Batch, Message, RecordBatch
from kseg.sidefiles.indexes import OffsetIndex, OffsetIndexEntry, TimeIndex, TimeIndexEntry

NONE_FOUND = -1
_MIN_V1_BYTES = message_set.MIN_BYTES + V1_TIMESTAMP_BYTES


class Frame(NamedTuple):
    """The batch header at a position; its checksum is not verified."""

    position: int
    size: int
    magic: int
    last_offset: int


class OffsetMismatch(NamedTuple):
    """``indexed``: the entry's offset; ``logged``: last offset of the batch at its position, -1 if there is no batch.

    ``misleads``: a reader that follows the entry misses records, because the batch begins after the entry's offset or
    does not exist. Otherwise the entry covers several batches, as one append of several batches may leave it.
    """

    indexed: int
    logged: int
    misleads: bool

    @property
    def code(self) -> str:
        return "index-mismatch"


class TimeMismatch(NamedTuple):
    """``code`` is a code of kseg.sidefiles.problems; ``indexed`` and ``logged`` are the values that disagree.

    Both are offsets for offset-not-found, and timestamps in ms otherwise. For timestamp-out-of-order ``logged`` is the
    timestamp of the previous entry.
    """

    code: str
    indexed: int
    logged: int

    @property
    def misleads(self) -> bool:
        """Whether a search by time would miss records because of the mismatch."""
        if self.code == "timestamp-mismatch":
            return self.indexed < self.logged
        return self.code == "timestamp-out-of-order"


class IndexedLog:
    """The bytes of a .log file, read at the positions that an index gives."""

    def __init__(self, buffer: Sliceable, scratch: Scratch | None = None) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.scratch = scratch or Scratch()
        self._walk: tuple[int, Frame, int] | None = None
        # Bounds the work: offsets that rise and fall could make the same bytes be walked many times.
        self.steps_left = 2 * (self.size // record_batch.HEADER_BYTES) + 100_000
        # An index may name one batch many times: each batch is opened once.
        self._first_offsets: dict[int, int] = {}
        self._max_timestamps: dict[int, int] = {}

    def frame_at(self, position: int, stop: int | None = None) -> Frame | None:
        """Returns the frame at a position if it ends at or before ``stop``, else None
        (FileLogInputStream.nextBatch)."""
        stop = self.size if stop is None else min(stop, self.size)
        if position < 0 or position >= stop - SHORT_TAIL_BYTES:
            return None
        head = bytes(self.buffer[position : min(position + 27, stop)])
        size = be32(head, ENTRY_SIZE)
        magic = head[ENTRY_MAGIC] - 256 if head[ENTRY_MAGIC] > 127 else head[ENTRY_MAGIC]
        least = record_batch.HEADER_BYTES if magic >= MAGIC_V2 else _MIN_V1_BYTES if magic else message_set.MIN_BYTES
        if size < message_set.MIN_SIZE or size + ENTRY_OVERHEAD < least or position + ENTRY_OVERHEAD + size > stop:
            return None
        last_delta = be32(head, V2_LAST_OFFSET_DELTA) if magic >= MAGIC_V2 else 0
        return Frame(position, ENTRY_OVERHEAD + size, magic, be64(head, ENTRY_OFFSET) + last_delta)

    def batch(self, frame: Frame) -> Batch:
        """Returns the batch of a frame without verifying its checksum."""
        data = bytes(self.buffer[frame.position : frame.position + frame.size])
        kind = RecordBatch if frame.magic >= MAGIC_V2 else Message
        return kind(data, frame.position, frame.size, frame.magic, True, self.scratch)

    def first_offset(self, frame: Frame) -> int:
        """Returns the offset of the frame's first record, or its last offset if its compressed data is unreadable."""
        if frame.position not in self._first_offsets:
            first = self.batch(frame).first_offset()
            self._first_offsets[frame.position] = frame.last_offset if first is None else first
        return self._first_offsets[frame.position]

    def frame_with(self, offset: int, position: int) -> Frame | None:
        """Returns the first frame from ``position`` on whose last offset is at least ``offset``.

        Returns None if there is no such frame, and when ``steps_left`` has reached 0: more frames have been walked
        than two passes over the file need.
        """
        frame, largest = self.frame_at(position), -(1 << 63)
        if self._walk and self._walk[0] == position and self._walk[2] < offset:
            _, frame, largest = self._walk
        while frame is not None and frame.last_offset < offset:
            if self.steps_left <= 0:
                return None
            self.steps_left -= 1
            largest = max(largest, frame.last_offset)
            self._walk = (position, frame, largest)
            frame = self.frame_at(frame.position + frame.size)
        return frame

    def max_timestamp(self, frame: Frame) -> int:
        """Returns the largest timestamp in ms of the readable records, -1 if there are none."""
        if frame.position not in self._max_timestamps:
            self._max_timestamps[frame.position] = _max_timestamp(self.batch(frame))
        return self._max_timestamps[frame.position]


def _max_timestamp(batch: Batch) -> int:
    largest = NONE_FOUND
    if batch.magic == 0:
        return largest
    try:
        for rows in batch.rows():
            stamps = rows.rows[ROW_TIMESTAMP : rows.count * ROW_WIDTH : ROW_WIDTH]
            largest = max(largest, max(stamps, default=NONE_FOUND))
    except UndecodableError:
        return largest  # the dump of the .log reports the unreadable records
    return largest


def check_offset_entry(
    entry: OffsetIndexEntry, log: IndexedLog, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> OffsetMismatch | None:
    """Returns the mismatch of an entry, or None if it is right.

    An entry is right if the batch at its position ends at the entry's offset, or begins there as in indexes written by
    brokers up to 1.1.
    """
    frame = log.frame_at(entry.position, entry.position + max_message_bytes)
    if frame is None:
        return OffsetMismatch(entry.offset, NONE_FOUND, True)
    if frame.last_offset == entry.offset:
        return None
    first = log.first_offset(frame)
    return None if first == entry.offset else OffsetMismatch(entry.offset, frame.last_offset, first > entry.offset)


def check_offset_index(
    index: OffsetIndex, log: IndexedLog, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> Iterator[tuple[OffsetIndexEntry, OffsetMismatch | None]]:
    """Yields every entry that kafka-dump-log checks, and its mismatch or None."""
    for entry in index.as_kafka_lists():
        yield entry, check_offset_entry(entry, log, max_message_bytes)


def check_time_index(
    times: TimeIndex, offsets: OffsetIndex, log: IndexedLog
) -> Iterator[tuple[TimeIndexEntry, list[TimeMismatch]]]:
    """Yields every entry that kafka-dump-log checks, and its mismatches.

    Stops checking once the ``steps_left`` of ``log`` are used up.
    """
    before = NONE_FOUND
    for entry in times.as_kafka_lists():
        frame = log.frame_with(entry.offset, offsets.lookup(entry.offset).position)
        found = []
        if frame is None or frame.last_offset != entry.offset:
            last_offset = NONE_FOUND if frame is None else frame.last_offset
            found.append(TimeMismatch("offset-not-found", entry.offset, last_offset))
        else:
            timestamp = log.max_timestamp(frame)
            if timestamp != entry.timestamp:
                found.append(TimeMismatch("timestamp-mismatch", entry.timestamp, timestamp))
            if before >= entry.timestamp:
                found.append(TimeMismatch("timestamp-out-of-order", entry.timestamp, before))
        yield entry, found if log.steps_left > 0 else []
        before = entry.timestamp
