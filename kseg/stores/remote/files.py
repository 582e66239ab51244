"""The log and the side files of a remote segment as files that readers open by path."""

import errno
from functools import partial

from kseg.errors import PathError
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.source import RemoteSource
from kseg.stores.remote.transformation import ChunkError
from kseg.stores.trees import Tree
from kseg.stores.virtual_files import VirtualLog, VirtualSideFile


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
