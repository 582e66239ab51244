"""Writes new segments: appends batches, rolls segments, and builds indexes as a broker does.

The files are written to the caller's directory, never into a partition: `kseg.changes` moves them into place. Source:
Kafka's LogSegment.append and onBecomeInactiveSegment of 3.9.1 and later (at most one index entry per batch),
RollParams, UnifiedLog.roll.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kseg.formats.message_set import MIN_BYTES
from kseg.formats.rows import BytesLike, Sliceable, int64s
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.files.system import WriteBehind
from kseg.kernel.layout import rows as layout
from kseg.kernel.scan import frames, headers
from kseg.kernel.scan.frames import SKIP_CHECKSUMS, FrameScan
from kseg.kernel.state import indexing
from kseg.limits import FRAMES_PER_CALL
from kseg.segment.files import segment_stem
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.stores.no_follow import create_file, open_file
from kseg.stores.place import Place

# The indexes of one segment, from batch headers (`kseg.kernel.state.indexing`). The entries are those that brokers
# since 3.9.1 write on append, and those of the cleaner and of recovery.

_INT32, _WRAP = 1 << 31, 1 << 32


class SegmentIndexes:
    """``offsets`` and ``times`` are the bytes of the two indexes so far.

    For ``uses_first_offset``, ``has_times`` and ``takes_any`` see `kseg.kernel.state.indexing`.
    """

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        uses_first_offset: bool = False,
        has_times: bool = True,
        takes_any: bool = False,
    ) -> None:
        self._base = base_offset
        self.state = indexing.IndexBuild(base_offset, interval_bytes, uses_first_offset, has_times, takes_any)
        self.offsets, self.times = bytearray(), bytearray()
        self._entries, self._stamps = memoryview(b""), memoryview(b"")

    @property
    def largest_timestamp(self) -> int:
        """In ms, -1 if there is none."""
        return int(self.state.largest_timestamp)

    def take(self, rows: memoryview, count: int) -> tuple[int, int]:
        """Adds the entries of ``count`` batches (rows BATCH_*); returns a status of `kseg.kernel.state.indexing` and
        the number of batches added."""
        state = self.state
        if len(self._entries) < count * OFFSET_ENTRY.size:
            self._entries = memoryview(bytearray(count * OFFSET_ENTRY.size))
            self._stamps = memoryview(bytearray(count * TIME_ENTRY.size))
        status = indexing.index(rows, count, state, self._entries, self._stamps)
        self.offsets += self._entries[: state.offsets * OFFSET_ENTRY.size]
        self.times += self._stamps[: state.times * TIME_ENTRY.size]
        return status, count if status == layout.DONE else state.row

    def finish(self) -> bool:
        """Adds the last entry of the time index; returns False if its offset is below the previous entry's."""
        state = self.state
        largest, at = state.largest_timestamp, state.largest_timestamp_offset
        if not state.has_times or largest <= state.last_timestamp:
            return True
        if at < state.last_time_offset:
            return False
        # The index stores the low 32 bits of an offset if its range is unchecked.
        self.times += TIME_ENTRY.pack(largest, (at - self._base + _INT32) % _WRAP - _INT32)
        return True


DEFAULT_SEGMENT_BYTES = 1 << 30
DEFAULT_INDEX_BYTES = 10 << 20
DEFAULT_INTERVAL_BYTES = 4096
LARGEST_SEGMENT_BYTES = LARGEST_DELTA = (1 << 31) - 1
"""A broker opens no larger file, and an index stores no larger difference of an offset to the base offset."""


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A complete segment. ``paths`` and ``sizes`` (in bytes) of its files by suffix.

    ``next_offset`` follows its last batch; ``largest_timestamp`` is in ms, -1 if there is none.
    """

    base_offset: int
    next_offset: int
    largest_timestamp: int
    batches: int
    sizes: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def name(self, suffix: str) -> str:
        """Returns the name of its file with that suffix in a partition."""
        return segment_stem(self.base_offset) + suffix


class SegmentWriter:
    """One segment, written to ``folder`` with the file names that it will have in a partition.

    ``folder`` None: nothing is written, but sizes are counted. Raises OSError on write errors.
    """

    def __init__(self, folder: str | None, base_offset: int, interval_bytes: int = DEFAULT_INTERVAL_BYTES) -> None:
        self.base_offset = self.next_offset = base_offset
        self.size = self.batches = 0
        self._folder = folder
        self._transactions = bytearray()
        self._indexes = SegmentIndexes(base_offset, interval_bytes)
        self._descriptor = -1 if folder is None else create_file(self._path(LOG))
        self._behind = WriteBehind(self._descriptor)

    @property
    def index_entries(self) -> int:
        """Number of entries in the longer of its indexes; the last entry of the time index is still to come."""
        indexes = self._indexes
        return max(len(indexes.offsets) // OFFSET_ENTRY.size, len(indexes.times) // TIME_ENTRY.size + 1)

    def append(self, data: BytesLike) -> None:
        """Appends whole adjacent batches (v2, or v0 and v1 messages) without verifying their checksums.

        Raises ValueError for any other bytes, or if an offset does not fit in the segment.
        """
        view, origin = memoryview(data), self.size
        for rows, count in batch_rows(data, origin):
            self.append_rows(view[self.size - origin :], rows, count)

    def append_rows(self, data: BytesLike, rows: memoryview, count: int) -> None:
        """Like `append`, with known headers: ``rows`` (BATCH_*) of ``count`` batches.

        The first batch begins at ``data[0]``; POSITION is relative to the segment.
        """
        first, last = rows[layout.BATCH_POSITION], (count - 1) * layout.BATCH_WIDTH
        end = rows[last + layout.BATCH_POSITION] + rows[last + layout.BATCH_SIZE]
        if first != self.size or end > LARGEST_SEGMENT_BYTES:
            raise ValueError(f"a batch at position {first} does not continue at {self.size}, or ends beyond 2 GiB")
        status, taken = self._indexes.take(rows, count)
        if status != layout.DONE:
            offset = rows[taken * layout.BATCH_WIDTH + layout.BATCH_LAST_OFFSET]
            raise ValueError(f"offset {offset} does not fit the segment that begins at {self.base_offset}")
        self._write(memoryview(data)[: end - first])
        self.size, self.batches = end, self.batches + count
        self.next_offset = rows[last + layout.BATCH_LAST_OFFSET] + 1

    def append_unread(self, data: BytesLike) -> None:
        """Appends bytes that are no intact batches; the indexes do not count them."""
        self._write(memoryview(data))
        self.size += len(data)

    def _write(self, view: memoryview) -> None:
        if self._folder is not None:
            self._open_again()
            size = len(view)
            while view:
                view = view[os.write(self._descriptor, view) :]
            self._behind.wrote(size)

    def add_aborted(self, entries: bytes) -> None:
        """Appends entries, in the format of the file, to the .txnindex (`kseg.sidefiles.indexes`)."""
        self._transactions += entries

    def finish(self, mtime_ns: int | None = None) -> WrittenSegment:
        """Closes the segment as a roll does and syncs its files; ``mtime_ns``: their modification time."""
        self._indexes.finish()
        contents = {INDEX: self._indexes.offsets, TIME_INDEX: self._indexes.times}
        if self._transactions:
            contents[TRANSACTION_INDEX] = self._transactions
        sizes = {LOG: self.size, **{suffix: len(content) for suffix, content in contents.items()}}
        written = WrittenSegment(
            self.base_offset, self.next_offset, self._indexes.largest_timestamp, self.batches, sizes
        )
        if self._folder is None:
            return written
        self._open_again()
        self._close(mtime_ns)
        for suffix, content in contents.items():
            self._descriptor = create_file(self._path(suffix))
            os.write(self._descriptor, content)
            self._close(mtime_ns)
        written.paths.update({suffix: self._path(suffix) for suffix in sizes})
        return written

    def close(self) -> None:
        """Closes the open file, unfinished; an append opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_again(self) -> None:
        if self._descriptor < 0:
            self._descriptor = self._behind.descriptor = open_file(self._path(LOG), os.O_WRONLY | os.O_APPEND)

    def _path(self, suffix: str) -> str:
        return Place(self._folder or "") / (segment_stem(self.base_offset) + suffix)

    def _close(self, mtime_ns: int | None) -> None:
        try:
            if mtime_ns is not None:
                os.utime(self._descriptor, ns=(mtime_ns, mtime_ns))
            os.fsync(self._descriptor)
        finally:
            self.close()


@dataclass(frozen=True, slots=True)
class RollLimits:
    """The topic settings that limit the size of segments and their indexes, in bytes."""

    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    index_bytes: int = DEFAULT_INDEX_BYTES
    interval_bytes: int = DEFAULT_INTERVAL_BYTES


class LogWriter:
    """Writes a log of several segments; a new one begins where a broker would roll."""

    def __init__(self, folder: str | None, base_offset: int, limits: RollLimits | None = None) -> None:
        self._folder, self._limits = folder, limits or RollLimits()
        self.segments: list[WrittenSegment] = []
        self._segment = SegmentWriter(folder, base_offset, self._limits.interval_bytes)

    @property
    def next_offset(self) -> int:
        return self._segment.next_offset

    def append(self, data: BytesLike) -> None:
        """Like `SegmentWriter.append`; segments roll between batches."""
        view = memoryview(data)
        for rows, count in batch_rows(data, 0):
            start = 0
            while start < count:
                taken = self._fitting(rows, start, count)
                if not taken:
                    # The first offset of a compressed v0 or v1 message is unknown.
                    at = start * layout.BATCH_WIDTH
                    first, last = rows[at + layout.BATCH_FIRST_OFFSET], rows[at + layout.BATCH_LAST_OFFSET]
                    base_offset = max(first if first >= 0 else last - LARGEST_DELTA, self.next_offset)
                    if base_offset == self._segment.base_offset or not 0 <= last - base_offset <= LARGEST_DELTA:
                        raise ValueError(f"offset {last} does not fit in a segment after offset {self.next_offset - 1}")
                    self.segments.append(self._segment.finish())
                    self._segment = SegmentWriter(self._folder, base_offset, self._limits.interval_bytes)
                    continue
                part = rows[start * layout.BATCH_WIDTH : (start + taken) * layout.BATCH_WIDTH]
                begin, moved = part[layout.BATCH_POSITION], self._segment.size - part[layout.BATCH_POSITION]
                for at in range(layout.BATCH_POSITION, len(part), layout.BATCH_WIDTH):
                    part[at] += moved
                self._segment.append_rows(view[begin:], part, taken)
                start += taken

    def add_aborted(self, entries: bytes) -> None:
        """Like `SegmentWriter.add_aborted`, for the segment of the last appended batch."""
        self._segment.add_aborted(entries)

    def finish(self) -> list[WrittenSegment]:
        """Closes the last segment; returns all segments."""
        self.segments.append(self._segment.finish())
        return self.segments

    def close(self) -> None:
        """As `SegmentWriter.close`."""
        self._segment.close()

    def _fitting(self, rows: memoryview, start: int, count: int) -> int:
        """Returns the number of batches that fit; the offset index gets no more entries than a time index can have."""
        segment, limits = self._segment, self._limits
        size = segment.size
        entries_left = limits.index_bytes // TIME_ENTRY.size - segment.index_entries
        for i in range(start, count):
            at = i * layout.BATCH_WIDTH
            after = size + rows[at + layout.BATCH_SIZE]
            is_full = size > 0 and (after > limits.segment_bytes or i - start >= entries_left)
            if is_full or not 0 <= rows[at + layout.BATCH_LAST_OFFSET] - segment.base_offset <= LARGEST_DELTA:
                return i - start
            size = after
        return count - start


def batch_rows(data: Sliceable, origin: int) -> Iterator[tuple[memoryview, int]]:
    """Yields header rows (BATCH_*) and their number for adjacent batches in ``data``; positions start at ``origin``.

    Checksums are verified only from the first batch on whose header no writer would make. Raises ValueError if other
    bytes are between the batches.
    """
    scan = FrameScan(options=SKIP_CHECKSUMS)
    found, end = int64s(min(FRAMES_PER_CALL, len(data) // MIN_BYTES + 1) * layout.FRAME_WIDTH), len(data)
    while (start := scan.position) < end:
        status = frames.scan(scan, data, end, found)
        count = scan.count
        if status == layout.IRREGULAR:
            if not scan.options:
                raise ValueError(f"no batch begins at position {scan.position}")
            scan = FrameScan(position=start)
            continue
        rows = int64s(count * layout.BATCH_WIDTH)
        headers.read(data, found, count, False, origin, rows)
        yield rows, count
