"""Where the bytes of a segment come from: a mapped file, a file read in windows, or standard input.

A mapped file that is cut short under the mapping kills a process with SIGBUS. So a file is only mapped where the
compiled kernel can guard the mapping (`kseg.kernel.guard`: what is gone reads as zeros); else it is read with pread.
"""

import mmap
import os
import stat
import sys
from contextlib import suppress
from threading import Lock
from typing import BinaryIO

from kseg.errors import PathError
from kseg.kernel import guard
from kseg.limits import FIRST_WINDOW_BYTES, WINDOW_BYTES

STANDARD_INPUT = "-"

SMALL_BYTES = 32 << 10
"""A file of so many bytes is read at once: that costs less than a mapping."""

_lingering: list[mmap.mmap] = []
_lock = Lock()


class FileBytes:
    """A file as a sequence of bytes, sliced by pread; what a shrinking file no longer has reads as zeros."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._window = b""
        self._window_start = 0
        self._ahead = FIRST_WINDOW_BYTES

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: int | slice) -> bytes | int:
        if isinstance(key, int):
            return self._read(key, key + 1)[0]
        start, stop, _ = key.indices(self._size)
        return self._read(start, max(start, stop))

    def _read(self, start: int, stop: int) -> bytes:
        at = start - self._window_start
        if at < 0 or stop - self._window_start > len(self._window):
            # Windows grow while one leads on to the next; whoever jumps about reads little in each place.
            leads_on = 0 <= at <= len(self._window)
            self._ahead = min(2 * self._ahead, WINDOW_BYTES) if leads_on else FIRST_WINDOW_BYTES
            wanted = min(max(stop - start, self._ahead), self._size - start)
            window = bytearray()
            while len(window) < wanted and (
                piece := os.pread(self._descriptor, wanted - len(window), start + len(window))
            ):
                window += piece
            self._window = bytes(window).ljust(wanted, b"\0")
            self._window_start, at = start, 0
        return self._window[at : at + stop - start]


class Source:
    """The bytes of one segment, as ``buffer``: sliceable, of a fixed length, safe against a file that shrinks.

    ``size`` is that of the file when it was opened; what is appended later is not seen.
    """

    def __init__(self, descriptor: int, path: str, size: int | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size if size is None else size
        self._mapping: mmap.mmap | None = None
        self._buffer: memoryview | FileBytes | bytes | None = None

    @property
    def buffer(self) -> memoryview | FileBytes | bytes:
        """The bytes, mapped when they are first asked for. Raises PathError where they cannot be had."""
        if self._buffer is None:
            self._buffer = self._opened()
        return self._buffer

    def _opened(self) -> memoryview | FileBytes | bytes:
        if not self.size or self._descriptor < 0:
            return b""
        if self.size > SMALL_BYTES and not guard.AVAILABLE:
            return FileBytes(self._descriptor, self.size)
        try:
            if self.size <= SMALL_BYTES:
                return memoryview(os.pread(self._descriptor, self.size, 0).ljust(self.size, b"\0"))
            self._mapping = _map(self._descriptor, self.size) or _map_copy(self._descriptor, self.size)
        except OSError as error:
            raise PathError(f"{self.path}: {error.strerror or error}") from error
        return memoryview(self._mapping)

    @property
    def descriptor(self) -> int:
        """The open file, to be read with pread; the source closes it."""
        return self._descriptor

    def current_size(self) -> int:
        """Bytes of the file that can still be read: less than ``size`` once it has been cut short."""
        return min(self.size, os.fstat(self._descriptor).st_size)

    def expect_jumps(self, is_so: bool) -> None:
        """Tells the system whether to read ahead in a mapped file: not while little is wanted of many places."""
        if self._mapping is not None and hasattr(mmap, "MADV_RANDOM"):
            self._mapping.madvise(mmap.MADV_RANDOM if is_so else mmap.MADV_NORMAL)

    @property
    def has_lost_pages(self) -> bool:
        """Whether zeros stand in ``buffer`` for what could not be read: cut off since, or on a failing disk."""
        return self._mapping is not None and guard.was_cut(self._mapping)

    def close(self) -> None:
        if isinstance(self._buffer, memoryview):
            with suppress(BufferError):  # slices of it are held: `_unmap` sees to that
                self._buffer.release()
        self._buffer = b""
        if self._mapping is not None:
            _unmap(self._mapping)
            self._mapping = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _map(descriptor: int, size: int) -> mmap.mmap | None:
    """A guarded mapping; None where it cannot be had: no room for it, a file system without, too many are guarded."""
    try:
        mapping = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    try:
        guard.guard(mapping)
    except RuntimeError:
        mapping.close()
        return None
    return mapping


def _map_copy(descriptor: int, size: int) -> mmap.mmap:
    """A mapping of an unnamed temporary copy, which nobody can cut, so that it needs no guard."""
    import shutil
    import tempfile

    with os.fdopen(os.dup(descriptor), "rb") as stream, tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(stream, spool, WINDOW_BYTES)
        spool.truncate(size)
        return mmap.mmap(spool.fileno(), size, access=mmap.ACCESS_READ)


def _unmap(mapping: mmap.mmap) -> None:
    """Ends a mapping. While views of it are held (as the frames of an exception in flight do) it stays and is guarded;
    a later call ends it.
    """
    with _lock:
        _lingering.append(mapping)
        for held in list(_lingering):
            guard.unguard(held)
            try:
                held.close()
            except BufferError:
                with suppress(
                    RuntimeError
                ):  # no place in the table: so it was when this copy was made, see `_map_copy`
                    guard.guard(held)
            else:
                _lingering.remove(held)


def open_source(path: str) -> Source:
    """Opens a file, or standard input for ``-``, to be read. Raises PathError where that cannot be done."""
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:
                raise PathError("standard input is closed")
            return Source(_seekable(sys.stdin.buffer), path)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        status = os.fstat(descriptor)
        if stat.S_ISFIFO(status.st_mode):
            with os.fdopen(descriptor, "rb") as pipe:
                return Source(_seekable(pipe), path)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise PathError(f"{path}: not a regular file")
        return Source(descriptor, path, status.st_size)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror or error}") from error


def _seekable(stream: BinaryIO) -> int:
    """A descriptor of the stream's bytes: its own if it is a file, else of an unnamed temporary one they go to."""
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 0:
        return os.dup(stream.fileno())
    import shutil
    import tempfile

    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(stream, spool, WINDOW_BYTES)
        spool.flush()
        return os.dup(spool.fileno())
