"""Reads the entries in use of an index file in windows; most of an active segment's 10 MiB index is unused zeros."""

import errno
from typing import Final

from kseg.kernel.layout.headers import TIME_ENTRY_BYTES
from kseg.stores.extent import end_of_data
from kseg.stores.regular_files import open_at_once

WINDOW_BYTES: Final = 1 << 20
FIRST_BYTES: Final = 16 << 10
"""Size of the first read: the index of a closed segment of 8 MiB has 16 KiB."""
_ZEROS = bytes(WINDOW_BYTES)


class EntryWindows:
    """An open file of entries of ``width`` bytes each; ``used_bytes`` of ``size`` come before the trailing zeros.

    Raises OSError if the file cannot be opened or read, or is not a regular file. Call `close` after use.
    """

    def __init__(self, path: str, width: int) -> None:
        self.width = width
        self._extent = open_at_once(path)
        try:
            self._first = self._extent.pread(FIRST_BYTES, 0)
            self.size = len(self._first)
            if self.size == FIRST_BYTES:
                if not self._extent.is_regular():
                    raise OSError(errno.EINVAL, "not a regular file")
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
            return int(capacity == 1 and self.width == TIME_ENTRY_BYTES)
        return min(-(-self.used_bytes // self.width), capacity)

    def window(self, entry: int) -> bytes:
        """Returns bytes from number ``entry`` on, perhaps beyond the used entries.

        Shorter than one entry if the file has been truncated meanwhile.
        """
        start = entry * self.width
        if self.used_bytes <= len(self._first) and start + self.width <= len(self._first):
            return self._first[start:]
        wanted = min(WINDOW_BYTES // self.width, self.used - entry) * self.width
        return self._extent.pread(wanted, entry * self.width)

    def close(self) -> None:
        self._extent.close()

    def _end_of_use(self) -> int:
        first = len(self._first)
        end = end_of_data(self._extent, first, self.size) if self.size > first else first
        while end > first:
            start = max(first, end - WINDOW_BYTES)
            block = self._extent.pread(end - start, start)
            if block != _ZEROS[: len(block)]:
                return start + len(block.rstrip(b"\0"))
            end = start
        return len(self._first.rstrip(b"\0"))
