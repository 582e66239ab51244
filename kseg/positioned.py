"""Reads and writes at a position of an open file, also on systems without pread and pwrite."""

import os
from threading import Lock

_lock = Lock()


def _seek_and_read(descriptor: int, length: int, position: int) -> bytes:
    """As os.pread, for Windows: the file's own position moves, so only one thread at a time may read."""
    with _lock:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, length)


def _seek_and_write(descriptor: int, data: memoryview, position: int) -> int:
    """As os.pwrite, for Windows."""
    with _lock:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


read_at = getattr(os, "pread", _seek_and_read)
"""Takes a descriptor, a length and a position. Returns fewer bytes at the end of the file. Raises OSError."""

_write_at = getattr(os, "pwrite", _seek_and_write)


def write_all(descriptor: int, data: "bytes | memoryview", position: int) -> None:
    """Writes all bytes at a position. Raises OSError."""
    view = memoryview(data)
    while view:
        count = _write_at(descriptor, view, position)
        view, position = view[count:], position + count
