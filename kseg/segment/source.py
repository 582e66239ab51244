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
from kseg.segment.holes import end_of_data
from kseg.segment.regular_files import is_expected_pipe, open_descriptor
from kseg.segment.unreadable import Range, is_disk_error, read_all, read_around, unreadable_error, unreadable_ranges

STANDARD_INPUT = "-"

SMALL_BYTES = 32 << 10
"""A file of so many bytes is read at once: that costs less than a mapping."""

_lingering: list[mmap.mmap] = []
_lock = Lock()


class FileBytes:
    """A file as a sequence of bytes, sliced by pread; what a shrinking file no longer has, or a disk cannot give, reads
    as zeros. ``has_failed``: the disk could not give something.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.has_failed = False
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
            self._window = self._pread(start, wanted).ljust(wanted, b"\0")
            self._window_start, at = start, 0
        return self._window[at : at + stop - start]

    def _pread(self, start: int, wanted: int) -> bytes:
        try:
            return read_all(self._descriptor, start, start + wanted)
        except OSError as error:
            if not is_disk_error(error):
                raise
            self.has_failed = True
        return read_around(self._descriptor, start, start + wanted)


class Source:
    """The bytes of one segment, as ``buffer``: sliceable, of a fixed length, safe against files that shrink and disks
    that fail.

    ``size`` is that of the file when it was opened; what is appended later is not seen. ``unreadable`` are the ranges
    that the disk cannot give, once `look_for_unreadable` has met one of them; they read as zeros.
    """

    def __init__(self, descriptor: int, path: str, size: int | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size if size is None else size
        self._mapping: mmap.mmap | None = None
        self._buffer: memoryview | FileBytes | bytes | None = None
        self.unreadable: list[Range] = []
        self._was_looked_through = False

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
                return memoryview(self._small().ljust(self.size, b"\0"))
            self._mapping = _map(self._descriptor, self.size) or _map_copy(self._descriptor, self.size)
        except OSError as error:
            raise PathError(f"{self.path}: {error.strerror or error}") from error
        return memoryview(self._mapping)

    def _small(self) -> bytes:
        try:
            return read_all(self._descriptor, 0, self.size)
        except OSError as error:
            if not is_disk_error(error):
                raise
        self._look_through()
        return read_around(self._descriptor, 0, self.size)

    def look_for_unreadable(self) -> bool:
        """Whether zeros may have been seen, since the last call, for bytes that the disk did not give: what was read of
        ``buffer`` is then to be read again, from a new ``buffer``.

        ``unreadable`` has the ranges from then on. The file is read through for them, once. Raises PathError where
        that fails for another reason.
        """
        has_failed = self._buffer.has_failed if isinstance(self._buffer, FileBytes) else self.has_lost_pages
        if self._was_looked_through or not has_failed or self.current_size() < self.size:
            return False
        self._look_through()
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            # The zeros of a page that is readable by now would stay. Views of the old mapping may be held.
            self._buffer = None
            _unmap(mapping)
        return True

    def _look_through(self) -> None:
        self._was_looked_through = True
        try:
            self.unreadable = unreadable_ranges(self._descriptor, self.size)
        except OSError as error:
            raise PathError(f"{self.path}: {error.strerror or error}") from error

    @property
    def descriptor(self) -> int:
        """The open file, to be read with pread; the source closes it."""
        return self._descriptor

    def end_of_data(self) -> int:
        """The size without a hole at the end, or up to a MiB more: what lies behind was never written."""
        if self.size <= SMALL_BYTES or self._descriptor < 0:
            return self.size
        return end_of_data(self._descriptor, 0, self.size)

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
    import tempfile

    with tempfile.TemporaryFile() as spool:
        for start in range(0, size, WINDOW_BYTES):
            spool.write(read_around(descriptor, start, min(start + WINDOW_BYTES, size)))
        spool.flush()
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
    """Opens a regular file, standard input for ``-``, or a FIFO of `expect_named`. Raises PathError where it cannot."""
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:
                raise PathError("standard input is closed")
            return Source(_seekable(sys.stdin.buffer), path)
        if is_expected_pipe(path):
            with open(path, "rb") as pipe:
                return Source(_seekable(pipe), path)
        descriptor = open_descriptor(path)
        return Source(descriptor, path, os.fstat(descriptor).st_size)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror or error}") from error


def check_readable(path: str) -> None:
    """Reads a whole file. Raises UnreadableError where its disk cannot give all bytes, PathError where it cannot be
    opened.

    For callers that would take what they cannot read for damage.
    """
    with open_source(path) as source:
        try:
            found = unreadable_ranges(source.descriptor, source.size)
        except OSError as error:
            raise PathError(f"{path}: {error.strerror or error}") from error
    if found:
        raise unreadable_error(path, found)


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
