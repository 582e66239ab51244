"""Object stores and other file systems by URL: s3://, gs://, abfs:// with pyarrow, others with fsspec.

A task copies the bytes that it needs of a segment (`kseg.spark.ranged`) to a temporary file with a few large requests,
and reads that file: checksums need all bytes anyway.
"""

import fnmatch
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from kseg.errors import KsegError, PathError
from kseg.segment.files import (
    SIDE_NAMES,
    SIDE_SUFFIXES,
    SegmentFile,
    parse_partition_name,
    segment_file,
    segments_among,
)
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.extent import Extent
from kseg.stores.source import Source, open_source
from kseg.stores.stored_object import is_url

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

REQUEST_BYTES = 8 << 20
Storage = tuple[tuple[str, str], ...]
"""Parameters of the file system: names and values of the options that start with ``storage.``."""

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
_WORDS = {"true": True, "false": False}


class Stored(NamedTuple):
    """A file in a store: its URL, and its size in bytes."""

    url: str
    size: int


def file_system(url: str, storage: Storage) -> "tuple[FileSystem, str]":
    """Returns the file system of a URL, and the path in it. Raises KsegError if none supports the URL and these
    options.
    """
    from pyarrow import fs

    parts = urlsplit(url)
    scheme = _ALIASES.get(parts.scheme, parts.scheme)
    options: dict[str, Any] = {name: _WORDS.get(value, value) for name, value in storage}
    native = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "abfs": "AzureFileSystem"}
    try:
        if scheme in native:
            if scheme == "abfs" and "@" in parts.netloc:
                container, _, host = parts.netloc.partition("@")
                options.setdefault("account_name", host.partition(".")[0])
                return fs.AzureFileSystem(**options), f"{container}{parts.path}"
            return getattr(fs, native[scheme])(**options), f"{parts.netloc}{parts.path}"
        import fsspec

        found = fsspec.filesystem(scheme, **options)
        return fs.PyFileSystem(fs.FSSpecHandler(found)), found._strip_protocol(url)
    except ModuleNotFoundError as error:
        raise KsegError(f"{url}: needs {error.name}: pip install {error.name}") from error
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise KsegError(f"{url}: {error}") from error


def stored_files(url: str, storage: Storage) -> list[list[Stored]]:
    """Returns the files of a URL: a single file, or the files of each partition directory at or in it; globs are
    expanded.

    Raises PathError if there is nothing.
    """
    system, path = file_system(url, storage)
    prefix = url[: len(url) - len(path)] if url.endswith(path) else f"{urlsplit(url).scheme}://"
    found = [place for each in _matching(system, path, url) for place in _places(system, each)]
    if not found:
        raise PathError(f"{url}: neither a segment nor a partition nor a log directory")
    return [[Stored(prefix + name, size) for name, size in place] for place in found]


def _matching(system: "FileSystem", path: str, url: str) -> list[str]:
    from pyarrow import fs

    components = path.split("/")
    magic = next((i for i, part in enumerate(components) if any(sign in part for sign in "*?[")), None)
    if magic is None:
        return [path]
    base = "/".join(components[:magic])
    try:
        infos = system.get_file_info(fs.FileSelector(base, recursive=len(components) - magic > 1))
    except OSError as error:
        raise PathError(f"{url}: {error}") from error
    matches = sorted(info.path for info in infos if _fits(info.path.split("/"), components))
    if not matches:
        raise PathError(f"{url}: matches nothing")
    return matches


def _fits(names: list[str], patterns: list[str]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))


def _places(system: "FileSystem", path: str) -> Iterator[list[tuple[str, int]]]:
    from pyarrow import fs

    info = system.get_file_info(path)
    if info.type == fs.FileType.File:
        yield [(path, info.size)]
        return
    if info.type != fs.FileType.Directory:
        raise PathError(f"{path}: no such file or directory")
    files, directories = _listed(system, path)
    if files and any(map(_is_ours, files)):
        yield files
        return
    for directory in directories:
        if parse_partition_name(os.path.basename(directory)):
            yield _listed(system, directory)[0]


def _listed(system: "FileSystem", path: str) -> tuple[list[tuple[str, int]], list[str]]:
    """Returns files with their sizes, and directories, sorted by name."""
    from pyarrow import fs

    infos = sorted(system.get_file_info(fs.FileSelector(path)), key=lambda info: info.path)
    files = [(info.path, info.size) for info in infos if info.type == fs.FileType.File]
    return files, [info.path for info in infos if info.type == fs.FileType.Directory]


def _is_ours(file: tuple[str, int]) -> bool:
    kind = segment_file(file[0]).kind
    return bool(kind) and kind not in (*SIDE_SUFFIXES, *SIDE_NAMES, *PACKED_SUFFIXES)


def stored_segments(url: str, storage: Storage) -> list[list[tuple[SegmentFile, int]]]:
    """Returns the segments of each file or partition directory of a URL, with their sizes."""
    found = []
    for place in stored_files(url, storage):
        sizes = {each.url: each.size for each in place}
        if len(place) == 1 and place[0].url.rstrip("/") == url.rstrip("/"):
            found.append([(segment_file(url), place[0].size)])
            continue
        directory = os.path.dirname(place[0].url) if place else url
        names = [os.path.basename(each.url) for each in place]
        files = segments_among(directory, names, own_name=os.path.basename(directory))
        found.append([(file, sizes[file.path]) for file in files])
    return found


def open_path(path: str, storage: Storage) -> Source:
    """Opens a local path or a URL. Raises PathError if it cannot be read."""
    if not is_url(path):
        return open_source(path)
    system, inside = file_system(path, storage)
    try:
        with system.open_input_file(inside) as stored, tempfile.TemporaryFile() as spool:
            spool_range(stored, spool, 0, stored.size())
            return Source(Extent(os.dup(spool.fileno())), path)
    except OSError as error:
        raise PathError(f"{path}: {error}") from error


def spool_range(stored: Any, spool: BinaryIO, position: int, end: int) -> None:
    """Copies bytes of a pyarrow file to the same position of another file."""
    spool.seek(position)
    while position < end and (piece := stored.read_at(min(REQUEST_BYTES, end - position), position)):
        spool.write(piece)
        position += len(piece)
    spool.flush()
