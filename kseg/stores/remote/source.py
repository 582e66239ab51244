"""A remote segment as a source: the log is spooled to an unnamed temporary file, chunk by chunk.

In place, only requested chunks are spooled (`Source.reach`, `Source.need`); ``extent``, for full passes and several
threads, spools the whole log. A damaged chunk reads as zeros, and its bytes are listed as unreadable, like those of a
failing disk.
"""

import errno
import os
from functools import partial

from kseg.errors import PathError, errors_at
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG
from kseg.positioned import write_all
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.segment import ChunkError, RemoteSegment
from kseg.stores.source import SMALL_BYTES, FetchedSource
from kseg.stores.trees import Tree, VirtualLog, VirtualSideFile

# The log and the side files of a remote segment as files that readers open by path.


class RemoteSource(FetchedSource):
    """``failures``: the errors of damaged chunks that were read, by number."""

    def __init__(self, segment: RemoteSegment, path: str, is_in_place: bool = False) -> None:
        chunk_bytes = segment.chunks.original_chunk_bytes
        super().__init__(path, segment.size, chunk_bytes, is_in_place and segment.size > SMALL_BYTES)
        self.failures: dict[int, str] = {}
        self._segment = segment
        self._failures_listed = 0

    def _new_file(self) -> int:
        import tempfile

        with errors_at(f"{self.path}: no temporary file"), tempfile.TemporaryFile() as spool:
            spool.truncate(self.size)
            return os.dup(spool.fileno())

    def _fetch(self, first: int, stop: int, descriptor: int) -> None:
        with errors_at(f"{self.path}: cannot be spooled"):
            self.failures |= write_chunks(self._segment, descriptor, first, stop)

    def look_for_unreadable(self) -> bool:
        if len(self.failures) == self._failures_listed:
            return False
        self._failures_listed = len(self.failures)
        self.unreadable = [self._segment.chunks.original_range(number) for number in sorted(self.failures)]
        return True


def write_chunks(segment: RemoteSegment, descriptor: int, first: int = 0, stop: int | None = None) -> dict[int, str]:
    """Writes chunks at their positions in a file, except damaged ones. Returns the errors by number.

    Raises OSError if the file cannot be written, and as `RemoteSegment.read_chunks`.
    """
    failures: dict[int, str] = {}
    for number, data in segment.read_chunks(first, stop):
        if isinstance(data, ChunkError):
            failures[number] = str(data)
        else:
            write_all(descriptor, data, segment.chunks.original_range(number)[0])
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
