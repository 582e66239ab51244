"""A full pass over a segment in windows read into one buffer that is used again.

Reading 1 GiB so takes half the time that the page faults of a fresh mapping take, and a file that is cut short
meanwhile only ends early. What the frames of a window hold is looked at while it is in the processor's cache.
"""

import os
from collections.abc import Callable, Iterator

from kseg.formats.expansion import room
from kseg.formats.rows import int64s
from kseg.kernel import frames
from kseg.kernel import stretches as kernel
from kseg.kernel.expand import Room
from kseg.kernel.native import BATCH_WIDTH, FRAME_WIDTH
from kseg.limits import FRAMES_PER_CALL, MAX_BATCH_BYTES
from kseg.segment.buffers import Buffers

WINDOW_BYTES = 1 << 19

LARGEST_KEPT_BYTES = 1 << 21
"""Of a window that a large frame has widened, where `Buffers` hand it on: a batch of 1 MiB is usual."""

_LENGTH_BYTES = 12
"""Of a frame, up to the end of its length: an offset and a count of the bytes that follow."""

LEAST_FRAME_BYTES = 26
"""A message of v0 without key and value."""

FIRST_LOOK_BYTES = 1 << 16
"""Where the next frame begins, most often; else twice as many are looked at, again and again."""

LARGEST_WINDOW_BYTES = 1 << 25
"""A frame that does not fit is left to the reader that maps the file: a length may claim anything."""

STRETCH_BYTES = 4 << 20
"""What one call of the kernel passes over before anyone may say how far it is, or stop it."""

BATCHES_PER_CALL = 8192
"""Headers that one call of the kernel hands over (128 bytes each)."""

Unproven = tuple[memoryview, memoryview, int, int]
"""A window, rows of so many frames in it, and where it lies in the file."""

# Of the kernel's state (`kseg.kernel.frames`) and place (`kseg.kernel.stretches`).
_NEXT, _ANCHOR, _MANNER, _RECORDS = 0, 2, 6, 7
_ORIGIN, _FILLED, _COUNT, _FRAMES = 0, 1, 3, 4


class Windows:
    """Follows intact frames of a file of magic 0 to 2 from ``position`` on; ends before the first that is not intact.

    With ``walk`` their records are checked too, lz4 and zstd included (`kseg.kernel.frames`, RECORDS_RIGHT); it may be
    any of that module's ways to read (WALK). ``records`` counts those found right. The others have to be opened: gzip,
    snappy, compressed messages of magic 0 and 1, what expands to more than ``max_batch_bytes`` or LARGEST_ROOM_BYTES,
    and what is wrong. ``buffers`` are used where they are given, else fresh memory. ``position`` is where the pass
    stands, at the end the first byte it says nothing about. A file may have several passes on threads of their own: a
    stretch of it takes one call of the kernel, which works without the GIL. Raises OSError, behind all that was read
    before.
    """

    def __init__(
        self,
        descriptor: int,
        position: int,
        end: int,
        walk: int = True,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        buffers: Buffers | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._end = end
        self._buffers = buffers
        columns = FRAMES_PER_CALL * FRAME_WIDTH
        if buffers is None:
            size = max(min(WINDOW_BYTES, end - position), 1)
            self._buffer = bytearray(size)
            self._rows = int64s(min(columns, (size // LEAST_FRAME_BYTES + 1) * FRAME_WIDTH))
        else:
            self._buffer = buffers.window(WINDOW_BYTES, LARGEST_KEPT_BYTES)
            self._rows = buffers.int64s("frames", columns)
        self._tables = (memoryview(bytearray(4)).cast("I"), memoryview(bytearray(4)).cast("I"))
        self._state = int64s(frames.STATE_SIZE)
        self._room = _room(max_batch_bytes, buffers) if walk & 1 else None
        self._state[_ANCHOR], self._state[_MANNER] = -1, walk
        self._place = int64s(kernel.PLACE_WIDTH)
        self._place[_ORIGIN] = position

    @property
    def position(self) -> int:
        return self._place[_ORIGIN] + self._state[_NEXT]

    @property
    def records(self) -> int:
        return self._state[_RECORDS]

    def __iter__(self) -> Iterator[tuple[memoryview, memoryview, int, int]]:
        """(window, rows, frames, origin): rows of ``frames`` frames, whose positions count from the window's start.

        The window lies at ``origin`` in the file. Both buffers are written over when the next is asked for.
        """
        nothing = int64s(0)
        while (status := self._follow(nothing)) != kernel.ENDED:
            if status == kernel.LOOK:
                yield self._seen()
            elif not self._widen():
                return

    def headers(
        self, take: Callable[[int], memoryview] | None = None
    ) -> Iterator[tuple[memoryview, int, Unproven | None]]:
        """(rows, batches, unproven): headers of so many batches, end to end, as rows (BATCH_*).

        ``take`` gives room for so many int64, for each of these anew; without it the rows are the receiver's.
        ``unproven`` is what `__iter__` gives of the last of these batches where they are not all known to be right, to
        be used before the next is asked for.
        """
        most = min(BATCHES_PER_CALL, (self._end - self.position) // LEAST_FRAME_BYTES + 1) * BATCH_WIDTH
        rows, status = int64s(0 if take else most), kernel.PAUSED
        while status != kernel.ENDED:
            if take:
                rows = take(most)[:most]
            self._place[_COUNT] = 0
            failure = None
            try:
                status = self._follow(rows)
            except OSError as error:
                status, failure = kernel.STUCK, error
            if count := self._place[_COUNT]:
                found = rows[: count * BATCH_WIDTH]
                if not take:
                    found = memoryview(bytearray(found)).cast("q")
                yield found, count, self._seen() if status == kernel.LOOK else None
            if failure is not None:
                raise failure
            if status == kernel.STUCK and not self._widen():
                return

    def _follow(self, rows: memoryview) -> int:
        try:
            return kernel.follow(
                self._descriptor, self._end, self.position + STRETCH_BYTES, self._buffer, self._rows, *self._tables,
                self._state, self._place, rows, self._room,
            )  # fmt: skip
        except OSError:
            self._state[_NEXT] = 0  # the window was moved, and not filled
            raise

    def _seen(self) -> Unproven:
        return memoryview(self._buffer), self._rows, self._place[_FRAMES], self._place[_ORIGIN]

    def _widen(self) -> bool:
        """Whether there is reason to look at the frame at the position again, with more bytes."""
        filled = self._place[_FILLED]
        if filled < len(self._buffer) or filled >= LARGEST_WINDOW_BYTES:
            return False
        claimed = _LENGTH_BYTES + int.from_bytes(self._buffer[8:_LENGTH_BYTES], "big", signed=True)
        if claimed <= filled or claimed > min(LARGEST_WINDOW_BYTES, self._end - self.position):
            return False
        # Room for a frame and no two: what lies behind it is read again, and more would not stay in the cache.
        size = min(claimed + claimed // 16 + filled // 8, LARGEST_WINDOW_BYTES)
        self._buffer = bytearray(size) if self._buffers is None else self._buffers.window(size, size)
        self._place[_FILLED] = 0
        return True


def _room(max_batch_bytes: int, buffers: Buffers | None) -> Room:
    if buffers is None:
        return room(max_batch_bytes)
    return buffers.kept(f"records of {max_batch_bytes} bytes", lambda: room(max_batch_bytes))


def next_frame(descriptor: int, start: int, end: int, stop: int | None = None) -> int:
    """Where the next frame from ``start`` on begins, before ``stop``, that is intact and not too large for a pass; -1
    where none does.

    A place to cut a file of magic 0 to 2 for passes on several threads. Bytes inside a record may look like a frame: a
    pass up to such a place ends before it, and what the pass behind it finds is not to be used.
    """
    size, stop = FIRST_LOOK_BYTES, end if stop is None else stop
    while start < stop:
        data = os.pread(descriptor, min(2 * size, end - start), start)
        # Prefix CRCs keep the search linear where each byte seems to open a frame.
        tables = [memoryview(bytearray(4 * (len(data) // 256 + 2))).cast("I") for _ in range(2)]
        looked = min(size, len(data), stop - start)
        state = int64s(frames.STATE_SIZE)
        at = frames.find(data, 0, looked, len(data), False, *tables, state) if data else -1
        if at >= 0:
            return start + at
        if size >= min(LARGEST_WINDOW_BYTES, stop - start) or len(data) < 2 * size:
            return -1
        size *= 2
    return -1
