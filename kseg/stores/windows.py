"""Reads a whole segment in windows, in one reused buffer.

This takes half the time of the page faults of a new mapping (measured for 1 GiB), and a truncated file only ends
earlier. The frames of a window are checked while it is in the processor's cache.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from kseg.formats.compression import expansion_buffer
from kseg.formats.message_set import MIN_BYTES
from kseg.formats.rows import BytesLike, Scratch, int64s
from kseg.kernel.layout.rows import BATCH_WIDTH, DONE, FRAME_WIDTH, FULL, IRREGULAR, NOT_PLAIN
from kseg.kernel.scan.frames import WALK_RECORDS, FrameScan, WindowedScan, find
from kseg.kernel.scan.pieces import common_prefix
from kseg.limits import FRAMES_PER_CALL, MAX_BATCH_BYTES
from kseg.stores.extent import Extent

T = TypeVar("T")

ROW_BYTES = 8 * BATCH_WIDTH
_ROWS_AT_ONCE = 8192


class Buffers:
    """The buffers of one thread for reading any number of segments, one after another: zeroing new memory takes longer
    than reading a small file.

    ``scratch`` is for records, ``window`` for bytes of a file, `int64s` for columns of the kernel.
    """

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.scratch = Scratch(max_batch_bytes)
        self._columns: dict[str, memoryview] = {}
        self._window = bytearray()
        self._kept: dict[str, Any] = {}

    def window(self, size: int, max_size: int) -> bytearray:
        """Returns ``size`` bytes of any content, or the previous, larger window if it is not above ``max_size``."""
        if not size <= len(self._window) <= max_size:
            self._window = bytearray(size)
        return self._window

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Returns the object that ``make`` created for the first request of ``name``, in the state of its last use."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def int64s(self, name: str, count: int) -> memoryview:
        """Returns at least ``count`` int64, with any content; one buffer per name."""
        found = self._columns.get(name)
        if found is None or len(found) < count:
            found = self._columns[name] = int64s(count)
        return found


class ProvenBatches:
    """``count`` adjacent batches from the start of a segment up to ``end``, proven intact while it was unpacked.

    ``rows``: their BATCH_* rows (`kseg.kernel.layout.rows`).
    """

    def __init__(self, end: int, count: int, rows: Extent) -> None:
        self.end, self.count = end, count
        self._rows = rows

    def headers(self) -> Iterator[tuple[memoryview, int]]:
        """Yields rows and their number; the rows belong to the caller."""
        for first in range(0, self.count, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, self.count - first)
            rows = bytearray(self._rows.pread(count * ROW_BYTES, first * ROW_BYTES))
            yield memoryview(rows).cast("q"), count


WINDOW_BYTES = 1 << 19

LARGEST_KEPT_BYTES = 1 << 21
"""Largest window kept in `Buffers` after a large frame has enlarged it; batches of 1 MiB are common."""

_LENGTH_BYTES = 12
"""Bytes of a frame up to the end of its length field: an offset, and the size of the rest."""

FIRST_LOOK_BYTES = 1 << 16
"""Bytes first searched for the next frame; if it is not found, the size is doubled repeatedly."""

LARGEST_WINDOW_BYTES = 1 << 25
"""A larger frame is left to the reader that maps the file, because a length field may be wrong."""

STRETCH_BYTES = 4 << 20
"""Bytes processed by one kernel call, between which progress and interrupts are handled."""

BATCHES_PER_CALL = 8192
"""Headers returned by one kernel call (128 bytes each)."""


Unproven = tuple[memoryview, memoryview, int, int]
"""A window, rows of its frames, their number, and the window's position in the file."""


class Windows:
    """Follows intact frames of magic 0 to 2 from ``position`` on; ends before the first that is not intact.

    ``walk``: whether to check records too, including those in lz4 and zstd; or options of
    `kseg.kernel.scan.frames`, such as WALK_RECORDS. Other batches
    must be opened by the caller: gzip, snappy, compressed messages of magic 0 and 1, malformed ones, and those that
    expand to more than ``max_batch_bytes`` or LARGEST_BUFFER_BYTES. ``buffers`` are used if given, else new memory.
    ``position`` is the current position, and at the end the first byte not covered. Several threads may run passes over
    one file: each stretch is one call of the kernel, which releases the GIL. Raises OSError after yielding all that was
    read before.
    """

    def __init__(
        self,
        extent: Extent,
        position: int,
        end: int,
        walk: int = True,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        buffers: Buffers | None = None,
    ) -> None:
        self._end = end
        size = WINDOW_BYTES
        if buffers is None:
            buffers, size = Buffers(max_batch_bytes), max(min(WINDOW_BYTES, end - position), 1)
        self._buffers, self._buffer = buffers, buffers.window(size, LARGEST_KEPT_BYTES)
        self._rows = buffers.int64s("frames", min(FRAMES_PER_CALL, size // MIN_BYTES + 1) * FRAME_WIDTH)
        self._scan = WindowedScan(extent.descriptor, position, end, walk, extent.start)
        self._expansion = None
        if walk & WALK_RECORDS:
            name, new = f"records of {max_batch_bytes} bytes", partial(expansion_buffer, max_batch_bytes)
            self._expansion = buffers.kept(name, new)

    @property
    def position(self) -> int:
        return int(self._scan.position)

    def __iter__(self) -> Iterator[tuple[memoryview, memoryview, int, int]]:
        """Yields (window, rows, frames, origin): rows of ``frames`` frames, with positions relative to the window.

        The window starts at ``origin`` in the file. Both buffers are overwritten by the next item.
        """
        nothing = int64s(0)
        while (status := self._follow(nothing)) != DONE:
            if status == NOT_PLAIN:
                yield self._window_rows()
            elif not self._widen():
                return

    def headers(
        self, take: Callable[[int], memoryview] | None = None
    ) -> Iterator[tuple[memoryview, int, Unproven | None]]:
        """Yields (rows, batches, unproven): headers of adjacent batches, as rows (BATCH_*).

        ``take`` returns a buffer of the given number of int64 for each item; without it the rows belong to the caller.
        ``unproven`` is None if all batches are proven right. Otherwise it is the item of `__iter__` for the last of
        these batches, valid until the next item.
        """
        width = min(BATCHES_PER_CALL, (self._end - self.position) // MIN_BYTES + 1) * BATCH_WIDTH
        rows, status = int64s(0) if take else self._buffers.int64s("headers", width), FULL
        while status != DONE:
            if take:
                rows = take(width)[:width]
            self._scan.header_count = 0
            failure = None
            try:
                status = self._follow(rows)
            except OSError as error:
                status, failure = IRREGULAR, error
            if count := self._scan.header_count:
                found = rows[: count * BATCH_WIDTH]
                if not take:
                    found = memoryview(bytearray(found)).cast("q")
                yield found, count, self._window_rows() if status == NOT_PLAIN else None
            if failure is not None:
                raise failure
            if status == IRREGULAR and not self._widen():
                return

    def _follow(self, rows: memoryview) -> int:
        return int(self._scan.follow(self.position + STRETCH_BYTES, self._buffer, self._rows, rows, self._expansion))

    def _window_rows(self) -> Unproven:
        return memoryview(self._buffer), self._rows, self._scan.frame_count, self._scan.origin

    def _widen(self) -> bool:
        """Enlarges the window if that may complete the frame at the position; returns whether to try again."""
        filled = self._scan.filled
        if filled < len(self._buffer) or filled >= LARGEST_WINDOW_BYTES:
            return False
        claimed = claimed_bytes(self._buffer)
        if claimed <= filled or claimed > min(LARGEST_WINDOW_BYTES, self._end - self.position):
            return False
        # Enough for one frame, not for two: bytes after it are read again, and more would not stay in the cache.
        size = min(claimed + claimed // 16 + filled // 8, LARGEST_WINDOW_BYTES)
        self._buffer = self._buffers.window(size, size)
        self._scan.filled = 0
        return True


def claimed_bytes(frame: bytes | bytearray) -> int:
    """Returns the size of a frame according to its length field, with offset and length field themselves."""
    return _LENGTH_BYTES + int.from_bytes(frame[8:_LENGTH_BYTES], "big", signed=True)


def next_frame(extent: Extent, start: int, end: int, stop: int | None = None) -> int:
    """Returns the position of the next intact frame in ``[start, stop)`` that is not too large for a pass, -1 for none.

    There a file of magic 0 to 2 can be divided for passes in several threads. Bytes inside a record may look like a
    frame. In this case the pass up to that position ends before it, and the results of the next pass must be dropped.
    """
    size, stop = FIRST_LOOK_BYTES, end if stop is None else stop
    while start < stop:
        data = extent.pread(min(2 * size, end - start), start)
        # Prefix CRCs keep the search linear even if every byte seems to start a frame.
        scan = FrameScan()
        scan.use_prefixes(0, len(data))
        looked = min(size, len(data), stop - start)
        at = find(scan, data, 0, looked, len(data)) if data else -1
        if at >= 0:
            return start + at
        if size >= min(LARGEST_WINDOW_BYTES, stop - start) or len(data) < 2 * size:
            return -1
        size *= 2
    return -1


def equal_bytes(
    one: Callable[[int, int], BytesLike], other: Callable[[int, int], BytesLike], size: int, first: int
) -> int:
    """Returns how many bytes at the start of two ranges of ``size`` bytes are equal.

    ``one`` and ``other`` return the bytes of a length and a position in the range. They are read in windows, at first
    of ``first`` bytes, then of twice as many each time.
    """
    same, window = 0, first
    while same < size:
        wanted = min(window, size - same)
        found = common_prefix(one(wanted, same), other(wanted, same))
        same += found
        if found < wanted:
            break
        window = min(2 * window, WINDOW_BYTES)
    return same
