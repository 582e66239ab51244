"""A full pass over a segment in windows read into one buffer that is used again.

Reading 1 GiB so takes half the time that the page faults of a fresh mapping take, and a file that is cut short
meanwhile only ends early. What the frames of a window hold is looked at while it is in the processor's cache.
"""

import os
from collections.abc import Iterator

from kseg.formats.libzstd import room
from kseg.formats.rows import int64s
from kseg.kernel import frames as kernel
from kseg.kernel.expand import Room
from kseg.kernel.native import FRAME_WIDTH
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


class Windows:
    """Follows intact frames of a file of magic 0 to 2 from ``position`` on; ends before the first that is not intact.

    With ``walk`` their records are checked too, lz4 and zstd included (`kseg.kernel.frames`, RECORDS_RIGHT); it may be
    any of that module's ways to read (WALK). ``records`` counts those found right, ``left`` the frames yielded last
    that were not, and have to be opened: gzip, snappy, compressed messages of magic 0 and 1, what expands to more than
    ``max_batch_bytes`` or LARGEST_ROOM_BYTES, and what is wrong. ``buffers`` are used where they are given, else fresh
    memory. ``position`` is where the pass stands, at the end the first byte it says nothing about. A file may have
    several passes on threads of their own: the kernel and the system work without the GIL.
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
            size = max(min(WINDOW_BYTES, end - position), 0)
            self._buffer = bytearray(size)
            self._rows = int64s(min(columns, (size // LEAST_FRAME_BYTES + 1) * FRAME_WIDTH))
        else:
            self._buffer = buffers.window(WINDOW_BYTES, LARGEST_KEPT_BYTES)
            self._rows = buffers.int64s("frames", columns)
        self._tables = (memoryview(bytearray(4)).cast("I"), memoryview(bytearray(4)).cast("I"))
        self._state = int64s(kernel.STATE_SIZE)
        self._room = _room(max_batch_bytes, buffers) if walk & 1 else None
        self._state[2], self._state[6] = -1, walk
        self._rest = 0
        self.position = position

    @property
    def records(self) -> int:
        return self._state[7]

    @property
    def left(self) -> int:
        return 0 if self._room is None else self._room.left

    def __iter__(self) -> Iterator[tuple[memoryview, memoryview, int, int]]:
        """(window, rows, frames, origin): rows of ``frames`` frames, whose positions count from the window's start.

        The window lies at ``origin`` in the file. Both buffers are written over when the next is asked for.
        """
        state = self._state
        while (filled := self._fill()) > 0:
            window, origin, start = memoryview(self._buffer), self.position, self.position
            state[0], status = 0, kernel.FULL
            while status == kernel.FULL:
                status = kernel.scan(window, filled, self._rows, False, *self._tables, state, self._room)
                self.position = origin + state[0]
                if state[1]:
                    yield window, self._rows, state[1], origin
            window.release()
            if self.position > start:
                self._keep_rest(self.position - start, filled)
            elif not self._widen(filled):
                return

    def _fill(self) -> int:
        """Bytes of the window, which begins at the position: the rest of the one before, and what is read behind it."""
        size = min(self._wanted(), self._end - self.position)
        with memoryview(self._buffer) as whole, whole[self._rest : size] as part:
            return self._rest + os.preadv(self._descriptor, [part], self.position + self._rest)

    def _keep_rest(self, start: int, end: int) -> None:
        """Moves the first bytes of a frame that the window has not whole to its front."""
        with memoryview(self._buffer) as whole:
            whole[: end - start] = whole[start:end]
        self._rest = end - start

    def _wanted(self) -> int:
        """Where the window best ends: behind a frame that takes most of it, and the length of the next."""
        whole = len(self._buffer)
        if self._rest < _LENGTH_BYTES:
            return whole
        wanted = self._claimed() + _LENGTH_BYTES
        return wanted if max(whole // 2, self._rest) < wanted <= whole else whole

    def _claimed(self) -> int:
        """Bytes of the frame at the window's start, as its length says."""
        return _LENGTH_BYTES + int.from_bytes(self._buffer[8:_LENGTH_BYTES], "big", signed=True)

    def _widen(self, filled: int) -> bool:
        """Whether there is reason to look at the frame at the position again, with more bytes."""
        if filled < len(self._buffer) or filled >= LARGEST_WINDOW_BYTES:
            return False
        claimed = self._claimed()
        if claimed <= filled or claimed > min(LARGEST_WINDOW_BYTES, self._end - self.position):
            return False
        # Room for a frame and no two: what lies behind it is read again, and more would not stay in the cache.
        size = min(claimed + claimed // 16 + filled // 8, LARGEST_WINDOW_BYTES)
        self._buffer = bytearray(size) if self._buffers is None else self._buffers.window(size, size)
        self._rest = 0
        return True


def _room(max_batch_bytes: int, buffers: Buffers | None) -> Room:
    if buffers is None:
        return room(max_batch_bytes)
    return buffers.kept(f"records of {max_batch_bytes} bytes", lambda: room(max_batch_bytes))


def next_frame(descriptor: int, start: int, end: int) -> int:
    """Where the next frame from ``start`` on begins that is intact and not too large for a pass; -1 where none does.

    A place to cut a file of magic 0 to 2 for passes on several threads. Bytes inside a record may look like a frame: a
    pass up to such a place ends before it, and what the pass behind it finds is not to be used.
    """
    size = FIRST_LOOK_BYTES
    while start < end:
        data = os.pread(descriptor, min(2 * size, end - start), start)
        # Prefix CRCs keep the search linear where each byte seems to open a frame.
        tables = [memoryview(bytearray(4 * (len(data) // 256 + 2))).cast("I") for _ in range(2)]
        at = (
            kernel.find(data, 0, min(size, len(data)), len(data), False, *tables, int64s(kernel.STATE_SIZE))
            if data
            else -1
        )
        if at >= 0:
            return start + at
        if size >= LARGEST_WINDOW_BYTES or len(data) < 2 * size:
            return -1
        size *= 2
    return -1
