"""Index entries against the .log beside them, as kafka-dump-log does it (DumpLogSegments.dumpIndex, dumpTimeIndex).

Only what an entry points at is read: the header of a batch at a position, and for a time index entry the headers from
where the offset index leads up to the batch with the entry's offset, whose records are then decoded.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.native import ROW_TIMESTAMP, ROW_WIDTH, be32, be64
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.segment.batches import Batch, Message, RecordBatch
from kseg.segment.reader import LEAST_SIZE, SHORT_TAIL_BYTES
from kseg.sidefiles.offset_index import OffsetIndex, OffsetIndexEntry
from kseg.sidefiles.time_index import TimeIndex, TimeIndexEntry

NONE_FOUND = -1
_HEADER_V2, _HEADER_V1, _HEADER_V0 = 61, 34, 26


class Frame(NamedTuple):
    """What the first bytes at a position say, checksum unseen."""

    position: int
    size: int
    magic: int
    last_offset: int


class OffsetMismatch(NamedTuple):
    """``log_offset``: last offset of the batch at the entry's position, -1 where there is none.

    ``misleads``: a reader who follows the entry misses records, as the batch begins behind the entry's offset or there
    is none. Without, the entry stands for more than one batch, as an append of several may leave it.
    """

    index_offset: int
    log_offset: int
    misleads: bool


class TimeMismatch(NamedTuple):
    """``code`` is one of kseg.sidefiles.problems; ``indexed`` and ``logged`` are what disagrees: timestamps in ms, for
    timestamp-out-of-order the second is that of the entry before; offsets for offset-not-found.
    """

    code: str
    indexed: int
    logged: int


class IndexedLog:
    """The bytes of a .log, looked at where an index points."""

    def __init__(self, buffer: Any, scratch: Scratch | None = None) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        self.scratch = scratch or Scratch()
        self._walk: tuple[int, Frame, int] | None = None
        # Offsets that go up and down could make the same bytes be walked over and over.
        self.steps_left = 2 * (self.size // _HEADER_V2) + 100_000
        # An index may name one batch over and over: each is opened once.
        self._first_offsets: dict[int, int] = {}
        self._max_timestamps: dict[int, int] = {}

    def frame_at(self, position: int, stop: int | None = None) -> Frame | None:
        """The frame at a position if it ends before ``stop`` (FileLogInputStream.nextBatch), None for anything else."""
        stop = self.size if stop is None else min(stop, self.size)
        if position < 0 or position >= stop - SHORT_TAIL_BYTES:
            return None
        head = bytes(self.buffer[position : min(position + 27, stop)])
        size = be32(head, 8)
        magic = head[16] - 256 if head[16] > 127 else head[16]
        least = _HEADER_V2 if magic >= 2 else _HEADER_V1 if magic else _HEADER_V0
        if size < LEAST_SIZE or size + 12 < least or position + 12 + size > stop:
            return None
        return Frame(position, 12 + size, magic, be64(head, 0) + (be32(head, 23) if magic >= 2 else 0))

    def batch(self, frame: Frame) -> Batch:
        """The batch of a frame; whether its checksum is right is not looked at."""
        data = bytes(self.buffer[frame.position : frame.position + frame.size])
        kind = RecordBatch if frame.magic >= 2 else Message
        return kind(data, frame.position, frame.size, frame.magic, True, self.scratch)

    def first_offset(self, frame: Frame) -> int:
        """Offset of the frame's first record; of a compressed message that does not open, its last."""
        if frame.position not in self._first_offsets:
            batch = self.batch(frame)
            first = batch.extent()[0] if isinstance(batch, Message) else batch.base_offset
            self._first_offsets[frame.position] = frame.last_offset if first is None else first
        return self._first_offsets[frame.position]

    def frame_with(self, offset: int, position: int) -> Frame | None:
        """The first frame from a position on whose last offset is not below ``offset``.

        None as well once more frames were walked than two passes over the file need (``steps_left`` is then 0).
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
        """Largest timestamp of the records that decode, in ms; -1 without one."""
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
        return largest  # the dump of the .log tells it
    return largest


def check_offset_entry(
    entry: OffsetIndexEntry, log: IndexedLog, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> OffsetMismatch | None:
    """What disagrees; None where the batch at the position ends at the entry's offset, or begins there as it does in
    indexes that brokers up to 1.1 wrote."""
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
    """Every entry that kafka-dump-log looks at, and what disagrees."""
    for entry in index.as_kafka_lists():
        yield entry, check_offset_entry(entry, log, max_message_bytes)


def check_time_index(
    times: TimeIndex, offsets: OffsetIndex, log: IndexedLog
) -> Iterator[tuple[TimeIndexEntry, list[TimeMismatch]]]:
    """Every entry that kafka-dump-log looks at, and what disagrees; nothing more is checked once the log's
    ``steps_left`` are used up."""
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
