"""A remote segment as a source: the log is spooled to an unnamed temporary file, chunk by chunk.

In place, only requested chunks are spooled (`Source.reach`, `Source.need`); ``extent``, for full passes and several
threads, spools the whole log. A damaged chunk reads as zeros, and its bytes are listed as unreadable, like those of a
failing disk.
"""

import errno
import os
from functools import partial

from kseg.errors import PathError
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG
from kseg.limits import FIRST_WINDOW_BYTES
from kseg.positioned import write_at
from kseg.stores.extent import Extent
from kseg.stores.remote.chunk_index import ChunkIndex, ManifestError
from kseg.stores.remote.segment import ChunkError, RemoteSegment
from kseg.stores.source import SMALL_BYTES, FileBytes, Source
from kseg.stores.trees import Tree
from kseg.stores.virtual_files import VirtualLog, VirtualSideFile

# The log and the side files of a remote segment as files that readers open by path.


class RemoteSource(Source):
    """``failures``: the errors of damaged chunks that were read, by number."""

    def __init__(self, segment: RemoteSegment, path: str, is_in_place: bool = False) -> None:
        super().__init__(Extent(-1), path, segment.size)
        self.failures: dict[int, str] = {}
        self._segment = segment
        self.is_in_place = is_in_place and segment.size > SMALL_BYTES
        self._is_spooled = bytearray(len(segment.chunks))
        self._further = 1
        self._failures_listed = 0

    @property
    def _chunks(self) -> ChunkIndex:
        return self._segment.chunks

    def _opened(self) -> "memoryview | FileBytes | bytes":
        if not self.is_in_place:
            self.need(0, self.size)
        extent = self._spool_file()
        opened = super()._opened()
        return _SpooledBytes(self, extent) if self.is_in_place and isinstance(opened, FileBytes) else opened

    @property
    def extent(self) -> Extent:
        self.need(0, self.size)
        return self._spool_file()

    def _spool_file(self) -> Extent:
        if self._extent.descriptor < 0:
            try:
                import tempfile

                with tempfile.TemporaryFile() as spool:
                    spool.truncate(self.size)
                    self._extent = Extent(os.dup(spool.fileno()))
            except OSError as error:
                raise PathError(f"{self.path}: no temporary file: {error.strerror}") from error
        return self._extent

    def need(self, start: int, end: int) -> None:
        first, last = self._chunks.at(max(start, 0)), self._chunks.at(min(end, self.size) - 1)
        while first <= last:
            if self._is_spooled[first]:
                first += 1
                continue
            stop = self._is_spooled.find(1, first, last + 1)
            stop = last + 1 if stop < 0 else stop
            self._spool(first, stop)
            first = stop

    def _spool(self, first: int, stop: int) -> None:
        try:
            self.failures |= write_chunks(self._segment, self._spool_file().descriptor, first, stop)
        except OSError as error:
            raise PathError(f"{self.path}: cannot be spooled: {error.strerror}") from error
        self._is_spooled[first:stop] = b"\1" * (stop - first)

    def reach(self, position: int, end: int) -> int:
        self.need(position, position + 1)
        missing = self._is_spooled.find(0, self._chunks.at(position))
        return end if missing < 0 else min(end, self._chunks.original_range(missing)[0])

    def reach_further(self, position: int, end: int) -> None:
        reached = self.reach(position, end)
        self.need(reached, min(reached + self._further * self._chunks.original_chunk_bytes, end))
        self._further *= 2

    def look_for_unreadable(self) -> bool:
        if len(self.failures) == self._failures_listed:
            return False
        self._failures_listed = len(self.failures)
        self.unreadable = [self._chunks.original_range(number) for number in sorted(self.failures)]
        return True

    def current_size(self) -> int:
        return self.size

    def close(self) -> None:
        """Closes the temporary file. The next pass spools anew."""
        super().close()
        self._extent, self._buffer = Extent(-1), None
        self._is_spooled = bytearray(len(self._is_spooled))


class _SpooledBytes(FileBytes):
    """The bytes of a source that is read in place and cannot be mapped: its windows have only spooled bytes."""

    def __init__(self, source: RemoteSource, extent: Extent) -> None:
        super().__init__(extent, source.size)
        self._source = source

    def _read(self, start: int, stop: int) -> bytes:
        at = start - self._window_start
        if at < 0 or stop - self._window_start > len(self._window):
            if stop > start:
                self._source.need(start, stop)
            end = max(stop, self._source.reach(start, min(start + FIRST_WINDOW_BYTES, self._size)))
            self._window, self._window_start, at = self._pread(start, end - start), start, 0
        return self._window[at : at + stop - start]


def write_chunks(segment: RemoteSegment, descriptor: int, first: int = 0, stop: int | None = None) -> dict[int, str]:
    """Writes chunks at their positions in a file, except damaged ones. Returns the errors by number.

    Raises OSError if the file cannot be written, and as `RemoteSegment.read_chunks`.
    """
    failures: dict[int, str] = {}
    for number, data in segment.read_chunks(first, stop):
        if isinstance(data, ChunkError):
            failures[number] = str(data)
            continue
        position, left = segment.chunks.original_range(number)[0], memoryview(data)
        while left:
            written = write_at(descriptor, left, position)
            position, left = position + written, left[written:]
    return failures


def files_of(segment: RemoteSegment, path: str, is_in_place: bool) -> dict[str, Tree]:
    """Returns the log at ``path``, and the indexes beside it; nothing is read yet."""
    files: dict[str, Tree] = {path: VirtualLog(partial(_size, segment), partial(_source, segment, path, is_in_place))}
    for suffix in INDEX_SUFFIXES:
        files[path.removesuffix(LOG) + suffix] = side_file_of(segment, suffix)
    return files


def side_file_of(segment: RemoteSegment, suffix: str) -> VirtualSideFile:
    """Returns a side file. It raises OSError if it cannot be restored: the log is then read without it."""
    return VirtualSideFile(partial(_content, segment, suffix))


def _size(segment: RemoteSegment) -> int:
    """Raises PathError."""
    try:
        return segment.size
    except ManifestError as error:
        raise PathError(f"{segment.path()}: its manifest cannot be used: {error}") from error


def _source(segment: RemoteSegment, path: str, is_in_place: bool) -> RemoteSource:
    """Raises KeyMissingError, PathError, UnsupportedError."""
    _size(segment)
    source = RemoteSource(segment, path, is_in_place)
    segment.check_key()
    return source


def _content(segment: RemoteSegment, suffix: str) -> bytes:
    try:
        content = segment.side_file(suffix)
    except (ChunkError, ManifestError) as error:
        raise OSError(errno.EIO, str(error)) from error
    if content is None:
        raise FileNotFoundError(errno.ENOENT, "no such part of the segment")
    return content
