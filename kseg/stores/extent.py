"""The bytes of an open file, or of a part of one: a member of an archive, or a file unpacked into the spool."""

import errno
import io
import os
from collections.abc import Iterable
from typing import Any, Final

from kseg.formats.rows import BytesLike
from kseg.positioned import read_at


class Extent:
    """``size`` bytes from ``start`` on of the file behind a descriptor, read by position relative to ``start``.

    ``size`` is None for a whole local file, whose size may change; ``modified_ns`` is given for a part of a file, if
    known. `close` closes the descriptor.
    """

    __slots__ = ("descriptor", "modified_ns", "size", "start")

    def __init__(
        self, descriptor: int, start: int = 0, size: int | None = None, modified_ns: int | None = None
    ) -> None:
        self.descriptor = descriptor
        self.start = start
        self.size = size
        self.modified_ns = modified_ns

    def pread(self, length: int, position: int) -> bytes:
        """Returns the bytes of a range, fewer at the end of the file or if the system reads fewer. Raises OSError."""
        if self.size is not None:
            length = min(length, self.size - position)
            if length <= 0:
                return b""
        found: bytes = read_at(self.descriptor, length, self.start + position)
        return found

    def read(self, start: int, stop: int) -> bytes:
        """Returns the bytes of a range, fewer only at the end of the file: goes on after a short read. Raises
        OSError."""
        found = self.pread(stop - start, start) if start < stop else b""
        if not found or len(found) == stop - start:
            return found  # without a copy
        pieces = bytearray(found)
        while len(pieces) < stop - start and (piece := self.pread(stop - start - len(pieces), start + len(pieces))):
            pieces += piece
        return bytes(pieces)

    def current_size(self) -> int:
        """Returns the number of bytes that can be read now: fewer than ``size`` if the file was truncated."""
        found = os.fstat(self.descriptor).st_size - self.start
        return found if self.size is None else max(min(self.size, found), 0)

    def mtime_ns(self) -> int | None:
        """Returns the modification time, None if unknown."""
        return os.fstat(self.descriptor).st_mtime_ns if self.size is None else self.modified_ns

    def again(self) -> "Extent":
        """Returns the same bytes with a descriptor of their own."""
        return Extent(os.dup(self.descriptor), self.start, self.size, self.modified_ns)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ExtentStream(io.RawIOBase):
    """An extent as a stream, which closes it."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = (0, self._position, self._extent.current_size())[whence]
        self._position = max(origin + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._extent.pread(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._extent.close()
        super().close()


def unnamed_file(pieces: Iterable[BytesLike] = (), size: int | None = None, directory: str | None = None) -> int:
    """Returns the descriptor of an unnamed temporary file with these bytes, cut or filled up with zeros to ``size``.

    Raises OSError.
    """
    import tempfile

    with tempfile.TemporaryFile(dir=directory) as file:
        file.writelines(pieces)
        file.flush()
        if size is not None:
            file.truncate(size)
        return os.dup(file.fileno())


# Finds holes of sparse files: ranges that were never written and read as zeros.

NEAR_BYTES: Final = 1 << 20


def end_of_data(extent: Extent, low: int, size: int) -> int:
    """Returns the start of the hole at the end of a file, or up to NEAR_BYTES after it; at least ``low``.

    A part of a file counts as having no hole.
    """
    if extent.size is not None:
        return size
    high = size
    if next_data(extent, low, size) == size:
        return low
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        low, high = (low, middle) if next_data(extent, middle, size) == size else (middle, high)
    return high


def next_data(extent: Extent, start: int, end: int) -> int:
    """Returns the position of the first written byte from ``start`` on, at most ``end``; ``start`` if the file system
    cannot answer."""
    if not hasattr(os, "SEEK_DATA") or extent.descriptor < 0:
        return start
    try:
        return min(os.lseek(extent.descriptor, extent.start + start, os.SEEK_DATA) - extent.start, end)
    except OSError as error:
        return end if error.errno == errno.ENXIO else start
