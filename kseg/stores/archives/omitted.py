"""Segments of an unpacked file whose proven batches are not in the spool, and how these bytes get there after all.

Readers of the header rows of a segment need nothing else (`Source.proven`). All others make the whole file be unpacked
again, once.
"""

import mmap
from collections.abc import Callable
from threading import Lock

from kseg.errors import PathError
from kseg.stores.archives.proving import KEPT_BYTES, WINDOW_BYTES, ProvingUnpacker
from kseg.stores.archives.spool import Spool
from kseg.stores.archives.unpack_error import UnpackError
from kseg.stores.archives.unpacked_stream import UnpackedStream
from kseg.stores.extent import Extent
from kseg.stores.proven import ROW_BYTES, ProvenBatches
from kseg.stores.source import FileBytes, Source
from kseg.stores.unreadable import read_around


class Omitted:
    """What the spool lacks of an unpacked file: the proven batches. Unpacked again from ``packed`` on demand."""

    def __init__(self, packed: Extent, made: Extent, unpacker: ProvingUnpacker, spool: Spool) -> None:
        self._packed, self._made, self._spool = packed, made, spool
        self._runs, self._rows = unpacker.runs, unpacker.rows
        self._lock = Lock()
        self._is_restored = mmap.mmap(-1, 1)  # forked processes share it; two that restore write the same bytes

    def proven(self, start: int, size: int) -> ProvenBatches | None:
        """Returns the proven batches at the start of these bytes of the unpacked file, None if there are none."""
        run = self._runs.get(start)
        if run is None or run.end > start + size:
            return None
        rows = Extent(self._rows.descriptor, run.first_row * ROW_BYTES, run.rows * ROW_BYTES)
        return ProvenBatches(run.end - start, run.rows, rows)

    def require(self, start: int, end: int) -> None:
        """Restores all omitted bytes if some are in a range. Raises KsegError, OSError."""
        if any(run.start < end and start < run.end for run in self._runs.values()):
            self.restore()

    def restore(self) -> None:
        """Writes all omitted bytes to the spool. Raises KsegError, OSError."""
        with self._lock:
            if not self._is_restored[0]:
                self._unpack_again()
                self._is_restored[0] = 1

    def _unpack_again(self) -> None:
        stream, window, position = UnpackedStream(self._packed), memoryview(bytearray(WINDOW_BYTES)), 0
        try:
            for run in sorted(self._runs.values()):
                while position < run.end:
                    got = stream.readinto(window)
                    if not got:
                        raise PathError("an archive has changed while it was read")
                    # Members between the runs are written once more, with the same bytes.
                    self._spool.write(self._made, window[:got], position)
                    position += got
        except UnpackError as error:
            raise PathError("an archive has changed while it was read") from error

    def close(self) -> None:
        self._rows.close()
        self._packed.close()


class ProvenSource(Source):
    """A segment that begins with proven batches. ``restore`` writes the bytes that are missing in the spool.

    Its first KEPT_BYTES, the last proven batch and all bytes after it are there.
    """

    def __init__(self, extent: Extent, path: str, proven: ProvenBatches, restore: Callable[[], None]) -> None:
        super().__init__(extent, path)
        self.proven = proven
        self._restore = restore
        self._behind: Source | None = None

    def _opened(self) -> "memoryview | FileBytes | bytes":
        self._restore()
        return super()._opened()

    @property
    def extent(self) -> Extent:
        self._restore()
        return self._extent

    def end_of_data(self) -> int:
        self._restore()
        return super().end_of_data()

    def behind_proven(self) -> Source:
        if self._behind is None:
            self._behind = Source(self._extent.again(), self.path, self.size)
        return self._behind

    def head(self, size: int) -> bytes:
        return read_around(self._extent, 0, min(self.size, size, KEPT_BYTES))

    def close(self) -> None:
        if self._behind is not None:
            self._behind.close()
        super().close()
