"""The entries in use of an index file, read in windows: an active segment's index is 10 MiB of room, mostly zeros."""

import errno
import os
import stat
from typing import Final

WINDOW_BYTES: Final = 1 << 20
_ZEROS = bytes(WINDOW_BYTES)


class EntryWindows:
    """An open file of entries of ``width`` bytes. ``used_bytes`` of ``size`` are before the zeros at the end.

    Raises OSError where the file cannot be opened or read, also where it is none. Closed by `close`.
    """

    def __init__(self, path: str, width: int) -> None:
        self.width = width
        # Without O_NONBLOCK a pipe of that name would never be opened.
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags)
        try:
            state = os.fstat(self._descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(0, "not a regular file")
            self.size = state.st_size
            self._first = os.pread(self._descriptor, WINDOW_BYTES, 0) if self.size else b""
            self.used_bytes = self._end_of_use()
        except BaseException:
            self.close()
            raise

    @property
    def used(self) -> int:
        """Whole entries in use."""
        room = self.size // self.width
        if not self.used_bytes:
            # The only entry of a closed time index may be timestamp 0 at the base offset.
            return int(room == 1 and self.width == 12)
        return min(-(-self.used_bytes // self.width), room)

    def window(self, entry: int) -> bytes:
        """Whole entries from number ``entry`` on: at least one unless the file has become shorter since."""
        start = entry * self.width
        wanted = min(WINDOW_BYTES // self.width, self.used - entry) * self.width
        data = self._first[:wanted] if not entry else os.pread(self._descriptor, wanted, start)
        return data[: len(data) - len(data) % self.width]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _end_of_use(self) -> int:
        start, end = len(self._first), self._end_of_data(len(self._first))
        while end > start:
            block = os.pread(self._descriptor, min(WINDOW_BYTES, end - start), max(start, end - WINDOW_BYTES))
            if block != _ZEROS[: len(block)]:
                return max(start, end - WINDOW_BYTES) + len(block.rstrip(b"\0"))
            end = max(start, end - WINDOW_BYTES)
        return len(self._first.rstrip(b"\0"))

    def _end_of_data(self, low: int) -> int:
        """Where the hole at the end begins, or somewhat behind it; not below ``low``."""
        high = self.size
        if high > low and self._is_hole(low):
            return low
        while high - low > WINDOW_BYTES:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_hole(middle) else (middle, high)
        return high

    def _is_hole(self, start: int) -> bool:
        """Whether nothing was ever written from ``start`` to the end of the file; False where that cannot be told."""
        if not hasattr(os, "SEEK_DATA"):
            return False
        try:
            os.lseek(self._descriptor, start, os.SEEK_DATA)
        except OSError as error:
            return error.errno == errno.ENXIO
        return False
