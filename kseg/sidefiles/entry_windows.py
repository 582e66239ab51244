"""The entries in use of an index file, read in windows: an active segment's index is 10 MiB of room, mostly zeros."""

import errno
import os
import stat
from typing import Final

from kseg.segment.holes import end_of_data
from kseg.sidefiles.first_bytes import READ_FLAGS

WINDOW_BYTES: Final = 1 << 20
FIRST_BYTES: Final = 16 << 10
"""Read at first: the index of a closed segment of 8 MiB has 16 KiB."""
_ZEROS = bytes(WINDOW_BYTES)


class EntryWindows:
    """An open file of entries of ``width`` bytes. ``used_bytes`` of ``size`` are before the zeros at the end.

    Raises OSError where the file cannot be opened or read, also where it is none. Closed by `close`.
    """

    def __init__(self, path: str, width: int) -> None:
        self.width = width
        self._descriptor = os.open(path, READ_FLAGS)
        try:
            self._first = os.pread(self._descriptor, FIRST_BYTES, 0)
            self.size = len(self._first)
            if self.size == FIRST_BYTES:
                state = os.fstat(self._descriptor)
                if not stat.S_ISREG(state.st_mode):
                    raise OSError(errno.EINVAL, "not a regular file")
                self.size = state.st_size
            if self.size <= FIRST_BYTES:
                self.close()
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
        """Entries from number ``entry`` on, and what may be behind; less than one if the file has become shorter."""
        start = entry * self.width
        if self.used_bytes <= len(self._first) and start + self.width <= len(self._first):
            return self._first[start:]
        wanted = min(WINDOW_BYTES // self.width, self.used - entry) * self.width
        return os.pread(self._descriptor, wanted, entry * self.width)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _end_of_use(self) -> int:
        first = len(self._first)
        end = end_of_data(self._descriptor, first, self.size) if self.size > first else first
        while end > first:
            start = max(first, end - WINDOW_BYTES)
            block = os.pread(self._descriptor, end - start, start)
            if block != _ZEROS[: len(block)]:
                return start + len(block.rstrip(b"\0"))
            end = start
        return len(self._first.rstrip(b"\0"))
