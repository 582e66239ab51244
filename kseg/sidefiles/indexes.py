"""Files of fixed-size entries, the offset, time and transaction indexes, and their comparison with the .log.

A broker preallocates the offset index and time index of the active segment, and truncates them when the segment is
closed (AbstractIndex). After a crash most of such a file is therefore zeros.
"""

import stat
import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kseg.errors import KsegError, PathError, errors_at
from kseg.formats import message_set, record_batch
from kseg.formats.rows import Scratch, Sliceable, UndecodableError
from kseg.kernel.layout import headers
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, MAGIC_V2
from kseg.kernel.layout.rows import ROW_TIMESTAMP, ROW_WIDTH, be32, be64
from kseg.limits import MAX_MESSAGE_BYTES, WINDOW_BYTES
from kseg.segment.items import Batch, Message, RecordBatch
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores.extent import Extent, end_of_data
from kseg.stores.place import Place
from kseg.stores.source import open_source

E = TypeVar("E")


def unpacked(buffer: Sliceable, layout: struct.Struct, start: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yields the fields of ``count`` entries from position ``start`` on; the bytes are read in windows."""
    end, step = start + count * layout.size, WINDOW_BYTES // layout.size * layout.size
    for at in range(start, end, step):
        yield from layout.iter_unpack(bytes(buffer[at : min(at + step, end)]))


class EntryFile(ABC, Generic[E]):
    """The entries of ``buffer`` (bytes, or the buffer of a source), parsed on access.

    ``base_offset`` is the number in the file name. ``capacity`` is the number of entries that fit in the file size;
    `len` is the number in use, without the zeros at the end. All bytes after the first ``written`` are known to be
    zeros and are not read.
    """

    LAYOUT: struct.Struct
    IS_PREALLOCATED = True
    """Whether brokers preallocate this kind of file."""

    def __init__(self, buffer: Sliceable, base_offset: int = 0, written: int | None = None) -> None:
        self.buffer = buffer
        self.base_offset = base_offset
        self.size = len(buffer)
        self.capacity = self.size // self.LAYOUT.size
        end = self.size if written is None else written
        self._used = self._count_used(end) if self.IS_PREALLOCATED or end < self.size else self.capacity

    @abstractmethod
    def _entry(self, fields: tuple[int, ...]) -> E:
        """Returns an entry, given its fields as stored in the file."""

    @abstractmethod
    def problem(self, entry: E, before: E | None) -> tuple[str, str] | None:
        """Returns the code and message of an entry's problem, given the previous entry, or None."""

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, i: int) -> E:
        """Entry i, in use or not. Raises IndexError if it is beyond the end of the file."""
        if not 0 <= i < self.capacity:
            raise IndexError(i)
        start = i * self.LAYOUT.size
        return self._entry(self.LAYOUT.unpack(bytes(self.buffer[start : start + self.LAYOUT.size])))

    def __iter__(self) -> Iterator[E]:
        """Yields the entries in use."""
        return self._range(self._used)

    def as_kafka_lists(self) -> Iterator[E]:
        """Yields the entries that kafka-dump-log prints (DumpLogSegments.dumpIndex).

        Preallocated zeros count as entries. Stops before the first entry at the base offset, except entry 0.
        """
        for i, entry in enumerate(self._range(self.capacity)):
            if i and getattr(entry, "offset", None) == self.base_offset:
                return
            yield entry

    def items(self) -> Iterator[E | SideFileProblem]:
        """Yields the entries in use, each followed by its problem if it has one, then the problems of the size: unused
        preallocated bytes, a partial entry at the end."""
        before: E | None = None
        size = self.LAYOUT.size
        for i, entry in enumerate(self):
            yield entry
            if problem := self.problem(entry, before):
                yield SideFileProblem(problem[0], i * size, size, problem[1])
            before = entry
        used, end = self._used * size, self.capacity * size
        if used < end:
            yield SideFileProblem("zero-tail", used, end - used, f"{self.capacity - self._used} entries not in use")
        if left := self.size - end:
            yield SideFileProblem("bad-size", end, left, f"{left} trailing bytes, less than an entry of {size}")

    def sanity_problem(self) -> str | None:
        """Why sanityCheck of OffsetIndex or TimeIndex of 4.3.1 rejects the file, None if it accepts it. OffsetIndex
        accepts trailing zeros, TimeIndex rejects most."""
        last = getattr(self[self.capacity - 1], "offset", self.base_offset) if self.capacity else self.base_offset
        if last < self.base_offset:
            return f"the last offset {last} is below the base offset {self.base_offset}"
        if self.size % self.LAYOUT.size:
            return f"{self.size} bytes are no multiple of {self.LAYOUT.size}"
        return None

    def _range(self, stop: int) -> Iterator[E]:
        return map(self._entry, unpacked(self.buffer, self.LAYOUT, 0, stop))

    def _count_used(self, end: int) -> int:
        while end:
            start = max(0, end - WINDOW_BYTES)
            window = bytes(self.buffer[start:end]).rstrip(b"\0")
            if window:
                return min(-(-(start + len(window)) // self.LAYOUT.size), self.capacity)
            end = start
        return 0


# ``.index``: maps offsets to byte positions in the .log (Kafka's OffsetIndex).
#
#     0   relativeOffset   int32   offset - base offset of the segment
#     4   position         int32   byte position in the .log where a batch begins
#
# Since 2.0 the offset is the batch's last offset; up to 1.1 it is the first. A log upgraded in place has both. Up to
# 3.9.0 an entry may also cover all batches of one append: then its offset is the largest of them and its position
# that of the first batch.


class OffsetIndexEntry(NamedTuple):
    """``offset`` is absolute; ``position`` is a byte position in the .log."""

    offset: int
    position: int


class OffsetIndex(EntryFile[OffsetIndexEntry]):
    """The entries of a .index file."""

    LAYOUT = OFFSET_ENTRY

    def _entry(self, fields: tuple[int, ...]) -> OffsetIndexEntry:
        return OffsetIndexEntry(self.base_offset + fields[0], fields[1])

    def problem(self, entry: OffsetIndexEntry, before: OffsetIndexEntry | None) -> tuple[str, str] | None:
        if entry.offset < self.base_offset:
            return "offset-below-base", f"offset {entry.offset} is below the base offset {self.base_offset}"
        if entry.position < 0:
            return "bad-value", f"position {entry.position} is negative"
        if before and (entry.offset <= before.offset or entry.position <= before.position):
            return "unsorted", f"offset {entry.offset} at {entry.position} follows {before.offset} at {before.position}"
        return None

    def lookup(self, offset: int) -> OffsetIndexEntry:
        """Returns the last entry in use with an offset of at most ``offset``, or (base offset, 0)."""
        behind = bisect_right(self, offset, key=attrgetter("offset"))
        return self[behind - 1] if behind else OffsetIndexEntry(self.base_offset, 0)


# ``.timeindex``: maps timestamps to offsets (Kafka's TimeIndex; since 0.10.1).
#
#     0   timestamp        int64   ms
#     8   relativeOffset   int32   offset - base offset of the segment
#
# No record of the segment up to that offset has a larger timestamp than the entry.

_LARGEST_BYTES = (1 << 31) - 1
"""Largest size of an index; brokers map it with an int size."""


class TimeIndexEntry(NamedTuple):
    """``timestamp`` in ms since the epoch; ``offset`` is absolute."""

    timestamp: int
    offset: int


class TimeIndex(EntryFile[TimeIndexEntry]):
    """The entries of a .timeindex file."""

    LAYOUT = TIME_ENTRY

    def _entry(self, fields: tuple[int, ...]) -> TimeIndexEntry:
        return TimeIndexEntry(fields[0], self.base_offset + fields[1])

    def problem(self, entry: TimeIndexEntry, before: TimeIndexEntry | None) -> tuple[str, str] | None:
        if entry.offset < self.base_offset:
            return "offset-below-base", f"offset {entry.offset} is below the base offset {self.base_offset}"
        if before and (entry.timestamp <= before.timestamp or entry.offset < before.offset):
            message = f"timestamp {entry.timestamp} of offset {entry.offset} follows {before.timestamp} of"
            return "unsorted", f"{message} {before.offset}"
        return None

    def _count_used(self, end: int) -> int:
        # A single entry of zeros may be real: timestamp 0 at the base offset. Zeros in a larger file are unused.
        return super()._count_used(end) or int(self.capacity == 1)

    def sanity_problem(self) -> str | None:
        if self.capacity and self[self.capacity - 1].timestamp < self[0].timestamp:
            last = self[self.capacity - 1].timestamp
            return f"the last timestamp {last} is below the first, {self[0].timestamp}"
        return super().sanity_problem()


def last_time_entry(path: str, base_offset: int) -> TimeIndexEntry | None:
    """Returns the last entry of a file before preallocated zeros; None if there is none. Raises KsegError."""
    status = None
    with errors_at(path), suppress(FileNotFoundError):
        status = Place(path).status()
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: not a regular file")
    if status.st_size > _LARGEST_BYTES:
        raise KsegError(f"{path}: {status.st_size} bytes are too many for a time index; rebuild it with kseg reindex")
    with open_source(path) as source:
        index = TimeIndex(source.buffer, base_offset)
        return index[len(index) - 1] if len(index) else None


# ``.txnindex``: the aborted transactions whose markers are in a segment (TransactionIndex, AbortedTxn; since 0.11).
#
#     0    version            int16   0
#     2    producerId         int64
#     10   firstOffset        int64   may be in an earlier segment
#     18   lastOffset         int64   of the ABORT marker
#     26   lastStableOffset   int64
#
# A segment without aborted transactions has no such file. The file is never preallocated.

TRANSACTION_VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def version_as_kafka_reads_it(self) -> int:
        """AbortedTxn.version() up to 4.3 reads only the first byte; readers reject entries with a value above 0. 4.4
        rejects every version but 0."""
        return self.version >> 8


class TransactionIndex(EntryFile[AbortedTxn]):
    """The entries of a .txnindex file."""

    LAYOUT = struct.Struct(">hqqqq")
    IS_PREALLOCATED = False

    def _entry(self, fields: tuple[int, ...]) -> AbortedTxn:
        return AbortedTxn(*fields)

    def problem(self, entry: AbortedTxn, before: AbortedTxn | None) -> tuple[str, str] | None:
        if entry.version != TRANSACTION_VERSION:
            return "unknown-version", f"version {entry.version} is not {TRANSACTION_VERSION}"
        if entry.last_offset < self.base_offset:
            return "offset-below-base", f"last offset {entry.last_offset} is below the base offset {self.base_offset}"
        if entry.first_offset > entry.last_offset or min(entry.producer_id, entry.first_offset) < 0:
            return "bad-value", f"producer {entry.producer_id}: offsets {entry.first_offset} to {entry.last_offset}"
        if before and entry.last_offset <= before.last_offset:
            return "unsorted", f"last offset {entry.last_offset} follows {before.last_offset}"
        return None


def build_transaction_index(entries: Iterable[AbortedTxn]) -> bytes:
    """Returns the bytes of a .txnindex file."""
    return b"".join(TransactionIndex.LAYOUT.pack(*entry) for entry in entries)


# The entries in use, read in windows: most of an active segment's 10 MiB index is unused zeros.

READ_BYTES: Final = 1 << 20
FIRST_BYTES: Final = 16 << 10
"""Size of the first read: the index of a closed segment of 8 MiB has 16 KiB."""
_ZEROS = bytes(READ_BYTES)


class EntryWindows:
    """An open file of entries of ``width`` bytes each; ``used_bytes`` of ``size`` come before the trailing zeros.

    Raises OSError if the file cannot be opened or read, or is not a regular file. Call `close` after use.
    """

    def __init__(self, path: str, width: int) -> None:
        self.width = width
        place = Place(path)
        self._extent = Extent(-1, size=0) if place.is_listed_empty() else place.open_extent()
        try:
            self._first = self._extent.pread(FIRST_BYTES, 0)
            self.size = len(self._first)
            if self.size == FIRST_BYTES:
                self.size = self._extent.current_size()
            if self.size <= FIRST_BYTES:
                self.close()
            self.used_bytes = self._end_of_use()
        except BaseException:
            self.close()
            raise

    @property
    def used(self) -> int:
        """Number of whole entries in use."""
        capacity = self.size // self.width
        if not self.used_bytes:
            # A closed time index may have a single entry of zeros: timestamp 0 at the base offset.
            return int(capacity == 1 and self.width == headers.TIME_ENTRY_BYTES)
        return min(-(-self.used_bytes // self.width), capacity)

    def window(self, entry: int) -> bytes:
        """Returns bytes from number ``entry`` on, perhaps beyond the used entries.

        Shorter than one entry if the file has been truncated meanwhile.
        """
        start = entry * self.width
        if self.used_bytes <= len(self._first) and start + self.width <= len(self._first):
            return self._first[start:] if start else self._first
        wanted = min(READ_BYTES // self.width, self.used - entry) * self.width
        return self._extent.pread(wanted, entry * self.width)

    def close(self) -> None:
        self._extent.close()

    def _end_of_use(self) -> int:
        first = len(self._first)
        end = end_of_data(self._extent, first, self.size) if self.size > first else first
        while end > first:
            start = max(first, end - READ_BYTES)
            block = self._extent.pread(end - start, start)
            if block != _ZEROS[: len(block)]:
                return start + len(block.rstrip(b"\0"))
            end = start
        return len(self._first.rstrip(b"\0"))


# Checks index entries against the segment's .log, as kafka-dump-log does (DumpLogSegments.dumpIndex, dumpTimeIndex).
#
# Reads only what an entry points at. For an offset index entry this is the batch header at its position. For a time
# index entry these are the headers from the position that the offset index gives up to the batch with the entry's
# offset, and the records of that batch.

NONE_FOUND = -1
_MIN_V1_BYTES = message_set.MIN_BYTES + headers.V1_TIMESTAMP_BYTES


class Frame(NamedTuple):
    """The batch header at a position; its checksum is not verified."""

    position: int
    size: int
    magic: int
    last_offset: int


class Mismatch(NamedTuple):
    """``code`` is a code of kseg.sidefiles.problems; ``indexed`` and ``logged`` are the values that disagree.

    For index-mismatch and offset-not-found both are offsets, ``logged`` the last one of a batch, -1 if there is no
    batch; otherwise timestamps in ms. For timestamp-out-of-order ``logged`` is the timestamp of the previous entry.
    ``misleads``: a search that follows the entry misses records.
    """

    code: str
    indexed: int
    logged: int
    misleads: bool


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
        if position < 0 or position >= stop - headers.SHORT_TAIL_BYTES:
            return None
        head = bytes(self.buffer[position : min(position + 27, stop)])
        size = be32(head, headers.ENTRY_SIZE)
        magic = head[headers.ENTRY_MAGIC] - 256 if head[headers.ENTRY_MAGIC] > 127 else head[headers.ENTRY_MAGIC]
        least = record_batch.HEADER_BYTES if magic >= MAGIC_V2 else _MIN_V1_BYTES if magic else message_set.MIN_BYTES
        whole = ENTRY_OVERHEAD + size
        if size < message_set.MIN_SIZE or whole < least or position + whole > stop:
            return None
        last_delta = be32(head, headers.V2_LAST_OFFSET_DELTA) if magic >= MAGIC_V2 else 0
        return Frame(position, whole, magic, be64(head, headers.ENTRY_OFFSET) + last_delta)

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
            largest = NONE_FOUND
            with suppress(UndecodableError):  # the dump of the .log reports the unreadable records
                for rows in self.batch(frame).rows() if frame.magic else ():
                    stamps = rows.rows[ROW_TIMESTAMP : rows.count * ROW_WIDTH : ROW_WIDTH]
                    largest = max(largest, max(stamps, default=NONE_FOUND))
            self._max_timestamps[frame.position] = largest
        return self._max_timestamps[frame.position]


def check_offset_entry(
    entry: OffsetIndexEntry, log: IndexedLog, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> list[Mismatch]:
    """Returns the mismatch of an entry, none if it is right.

    An entry is right if the batch at its position ends at the entry's offset, or begins there as in indexes written by
    brokers up to 1.1. It misleads if the batch begins after its offset or does not exist; otherwise it covers several
    batches, as one append of several batches may leave it.
    """
    frame = log.frame_at(entry.position, entry.position + max_message_bytes)
    if frame is None:
        return [Mismatch("index-mismatch", entry.offset, NONE_FOUND, True)]
    if frame.last_offset == entry.offset or (first := log.first_offset(frame)) == entry.offset:
        return []
    return [Mismatch("index-mismatch", entry.offset, frame.last_offset, first > entry.offset)]


def check_time_index(
    times: TimeIndex, offsets: OffsetIndex, log: IndexedLog
) -> Iterator[tuple[TimeIndexEntry, list[Mismatch]]]:
    """Yields every entry that kafka-dump-log checks, and its mismatches.

    Stops checking once the ``steps_left`` of ``log`` are used up.
    """
    before = NONE_FOUND
    for entry in times.as_kafka_lists():
        frame = log.frame_with(entry.offset, offsets.lookup(entry.offset).position)
        found = []
        if frame is None or frame.last_offset != entry.offset:
            last_offset = NONE_FOUND if frame is None else frame.last_offset
            found.append(Mismatch("offset-not-found", entry.offset, last_offset, False))
        else:
            timestamp = log.max_timestamp(frame)
            if timestamp != entry.timestamp:
                found.append(Mismatch("timestamp-mismatch", entry.timestamp, timestamp, entry.timestamp < timestamp))
            if before >= entry.timestamp:
                found.append(Mismatch("timestamp-out-of-order", entry.timestamp, before, True))
        yield entry, found if log.steps_left > 0 else []
        before = entry.timestamp
