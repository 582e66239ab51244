"""Bounded temporary files without names, for bytes that must be seekable. All processes and files share the bound."""

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from kseg.errors import KsegError, text_of
from kseg.formats.rows import BytesLike
from kseg.limits import WINDOW_BYTES
from kseg.positioned import write_all
from kseg.stores.extent import Extent, unnamed_file

_COUNTER_BYTES = 8
_COUNTERS = 1024


class SpoolFullError(KsegError):
    """More temporary space is needed than allowed."""


class Spool:
    """``directory``: where files are made (default: that of temporary files); ``max_bytes``: the bound of all
    processes together (default: half of what is free there). ``omits_batches``: batches that are proven intact while a
    file is unpacked are left out, for a caller that needs only their headers (`kseg.stores.archives.opening`).
    """

    def __init__(self, directory: str | None = None, max_bytes: int | None = None) -> None:
        self.omits_batches = False
        self._directory = directory
        self._max_bytes = max_bytes
        # Each process adds to a counter of its own: a collision only makes the bound laxer.
        self._used = mmap.mmap(-1, _COUNTERS * _COUNTER_BYTES)
        self._lock = Lock()

    @property
    def directory(self) -> str:
        """Where files are made."""
        import tempfile

        return self._directory or tempfile.gettempdir()

    def add(self, pieces: Iterable[BytesLike]) -> Extent:
        """Writes a file of these bytes, and opens it. Raises SpoolFullError, KsegError, and the errors of
        ``pieces``."""

        def placed() -> Iterator[tuple[int, BytesLike]]:
            position = 0
            for piece in pieces:
                yield position, piece
                position += len(piece)

        return self.add_ranges(placed())

    def add_ranges(self, ranges: Iterable[tuple[int, BytesLike]], size: int = 0) -> Extent:
        """Writes a sparse file of at least ``size`` bytes with these bytes at their positions, and opens it.

        Raises as `add`, and OSError.
        """
        extent = Extent(self._unnamed_file(), 0, 0)
        try:
            for position, data in ranges:
                self.write(extent, data, position)
                size = max(size, position + len(data))
            extent.size = size
            os.ftruncate(extent.descriptor, size)
        except BaseException:
            extent.close()
            raise
        return extent

    def write(self, extent: Extent, data: BytesLike, position: int) -> None:
        """Writes bytes at a position of a file of this spool. Raises SpoolFullError, KsegError."""
        data = memoryview(data).cast("B")
        with self._lock:
            counters = memoryview(self._used).cast("q")
            counters[os.getpid() % _COUNTERS] += len(data)
            if sum(counters) > self._limit():
                raise self._full()
        try:
            write_all(extent.descriptor, data, extent.start + position)
        except OSError as error:
            raise self._failure(error) from error

    def new_file(self, size: int) -> int:
        """Returns the descriptor of a sparse file, which its user closes. Raises SpoolFullError, KsegError."""
        if size > self._limit():
            raise self._full()
        return self._unnamed_file(size)

    def new_mapping(self, size: int) -> mmap.mmap:
        """Returns a new file as zeros in memory. Raises SpoolFullError, KsegError.

        Its bytes are reserved: without them a write to the mapping would end the process once the disk is full.
        """
        descriptor = self.new_file(size)
        try:
            _reserve(descriptor, size)
            return mmap.mmap(descriptor, size)
        except OSError as error:
            raise self._failure(error) from error
        finally:
            os.close(descriptor)

    def _limit(self) -> int:
        if self._max_bytes is None:
            import shutil

            self._max_bytes = shutil.disk_usage(self.directory).free // 2
        return self._max_bytes

    def _unnamed_file(self, size: int = 0) -> int:
        try:
            return unnamed_file(size=size, directory=self._directory)
        except OSError as error:
            raise self._failure(error) from error

    def _full(self) -> SpoolFullError:
        return SpoolFullError(
            f"more than {self._max_bytes} bytes of temporary files would be needed: --spool-bytes sets the limit, "
            "--spool-dir the directory"
        )

    def _failure(self, error: OSError) -> KsegError:
        directory = self._directory or "temporary files"
        return KsegError(f"{directory}: {text_of(error)}: --spool-dir sets their directory")


def _reserve(descriptor: int, size: int) -> None:
    """Makes the disk keep the bytes of a file. Raises OSError."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        for position in range(0, size, WINDOW_BYTES):
            write_all(descriptor, bytes(min(WINDOW_BYTES, size - position)), position)


_current: list[Spool] = []


def current_spool() -> Spool:
    """Returns the spool of the command that runs; a new one with the default bounds if none was set."""
    if not _current:
        _current.append(Spool())
    return _current[-1]


@contextmanager
def use_spool(spool: Spool) -> Iterator[None]:
    """Makes a spool the current one for the length of a block."""
    _current.append(spool)
    try:
        yield
    finally:
        _current.remove(spool)
