"""Object stores and other file systems by URL, mounted while a read is planned or a task runs (`kseg.stores.trees`).

s3://, gs:// and abfs:// are read with pyarrow, whose packages Spark needs anyway, hdfs:// by WebHDFS
(`kseg.stores.webhdfs`), others with fsspec. Ranges of a segment are fetched to a temporary file when they are needed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from kseg.errors import KsegError, PathError, text_of
from kseg.export import fs
from kseg.logdir.remote_partitions import LiveSegment, RemoteTree
from kseg.segment.paths import expand_globs, expand_path
from kseg.spark.options import Options
from kseg.spark.storage import Storage, scheme_of
from kseg.stores import trees
from kseg.stores.archives.spool import Spool, use_spool
from kseg.stores.http_requests import ATTEMPTS, REQUEST_SECONDS
from kseg.stores.object_urls import UrlObjects, UrlTree, check_credentials, open_url
from kseg.stores.objects import Folder, LocalObjects, Objects, expand_url
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.stored_object import StoredObject, is_url, local_path, shown, store_root

# Resolves the paths of a DataFrame: files, partition and log directories, and globs.


def expanded_paths(paths: Iterable[str]) -> list[str]:
    """Returns paths and URLs with globs expanded. Raises PathError if nothing matches, KsegError without a path."""
    found = []
    for path in map(local_path, paths):
        found += expand_url(path) if is_url(path) else expand_globs([path])
    if not found:
        raise KsegError("format kseg needs a path: load('orders-0'); a table needs one, and no columns of its own")
    return found


def places(paths: Iterable[str]) -> Iterator[str]:
    """Yields the files and partition directories of paths (`kseg.segment.paths.expand_path`)."""
    for path in expanded_paths(paths):
        yield from expand_path(path)


# Remote (tiered) storage among the paths of a read, mounted as log directories (`kseg.logdir.remote_partitions`).
#
# The driver finds the live segments. A task gets the objects of its own segments, and lists nothing.


@contextmanager
def remote_storage_at(options: Options) -> Iterator[None]:
    """Mounts the remote storage among the paths while a read is planned. Raises PathError if a path does not exist."""
    paths = (path for path in expanded_paths(options.paths) if trees.isdir(path) and is_remote_storage(path))
    with trees.mounted((path, _tree(path, options)) for path in paths):
        yield


@contextmanager
def remote_segments_at(found: Sequence[tuple[str, LiveSegment]], options: Options) -> Iterator[None]:
    """Mounts the remote segments of a task at the paths of their .log."""
    roots = {root: _tree(root, options) for root in {os.path.dirname(os.path.dirname(path)) for path, _ in found}}
    with trees.mounted(roots.items()):
        for path, live in found:
            place = trees.find(path)
            if place is not None and isinstance(place.tree, RemoteTree):
                place.tree.use(place.inner, live)
        yield


def _tree(path: str, options: Options) -> RemoteTree:
    return RemoteTree(objects_at(path, options.storage) if is_url(path) else LocalObjects(path), options.keys)


_NATIVE = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "abfs": "AzureFileSystem"}
_NUMBERS = {"request_timeout": float, "connect_timeout": float, "load_frequency": int}
"""Parameters of pyarrow's file systems that are no strings."""
_OPEN_FILES = 16
GOOGLE = "gcs"
"""The name of pyarrow's file system of Google."""


@contextmanager
def stores_at(paths: Iterable[str], storage: Storage) -> Iterator[None]:
    """Lets all readers of logs read URLs among the paths. Raises KsegError if a URL or its options are not supported.

    The listings of the stores are kept until the block ends, or until `forget_listing`.
    """
    spool, roots = Spool(), map(store_root, filter(is_url, paths))
    new = ((shown(root), root) for root in roots if trees.find(shown(root)) is None)
    with use_spool(spool), trees.mounted((place, UrlTree(objects_at(root, storage), spool)) for place, root in new):
        yield


def forget_listing(path: str) -> None:
    """Frees the listing of a directory in a store."""
    place = trees.find(path)
    if place is not None and isinstance(place.tree, UrlTree):
        place.tree.forget(place.inner)


def objects_at(url: str, storage: Storage) -> "UrlObjects | ArrowObjects":
    """Returns the objects below a URL. Raises KsegError if it or its options are not supported."""
    options = storage.options_for(url)
    check_credentials(url)
    if _is_native(url, options):
        return ArrowObjects(url, *file_system(url, options))
    return UrlObjects(url, options)


def _is_native(url: str, options: dict[str, Any]) -> bool:
    """Whether pyarrow has the file system; that of Google takes no key file, which is a ``token`` of gcsfs."""
    return scheme_of(url) in _NATIVE and not (scheme_of(url) == "gs" and "token" in options)


def file_system(url: str, options: dict[str, Any]) -> "tuple[fs.FileSystem, str]":
    """Returns pyarrow's file system of a URL, and the path in it. Raises KsegError if it rejects these options."""
    parts, scheme = urlsplit(url), scheme_of(url)
    container, _, host = parts.netloc.partition("@")
    if scheme == "abfs" and host:
        options = {"account_name": host.partition(".")[0]} | options
    try:
        options = {name: _NUMBERS[name](value) if name in _NUMBERS else value for name, value in options.items()}
        if scheme == "s3":
            attempts = int(options.pop("max_attempts", ATTEMPTS))
            options.setdefault("request_timeout", REQUEST_SECONDS)
            options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=attempts)
        return getattr(fs, _NATIVE[scheme])(**options), f"{container if scheme == 'abfs' else parts.netloc}{parts.path}"
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise KsegError(f"{shown(url)}: {error}") from error


def writable_file_system(url: str, storage: Storage) -> "tuple[fs.FileSystem, str]":
    """Returns pyarrow's file system of any URL, and the path in it. Raises KsegError."""
    options = storage.options_for(url)
    check_credentials(url)
    if _is_native(url, options):
        system, path = file_system(url, options)
        return system, path.rstrip("/")
    inner, path = open_url(url, options)
    return fs.PyFileSystem(fs.FSSpecHandler(inner)), str(path).rstrip("/")


def can_rename(system: "fs.FileSystem") -> bool:
    """Whether a file gets another name at no cost: in HDFS."""
    return bool(system.type_name == "py::fsspec+webhdfs")


class ArrowObjects(Objects):
    """The objects of a bucket or container in a file system of pyarrow, as `UrlObjects`."""

    def __init__(self, root: str, system: "fs.FileSystem", path: str) -> None:
        self.root = shown(root).rstrip("/")
        self._system, self._path = system, path.rstrip("/")
        self._files: dict[str, Any] = {}

    def _key(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def folder(self, name: str) -> Folder:
        key = self._key(name)
        # Of Google's folders only those that are objects themselves are listed, unless all below is.
        is_deep = self._system.type_name == GOOGLE
        infos = self._call(name, self._system.get_file_info, fs.FileSelector(key, recursive=is_deep))
        files, folders = [], set()
        for info in infos:
            first, _, below = info.path.removeprefix(key).strip("/").partition("/")
            if below or info.type == fs.FileType.Directory:
                folders.add(first)
            elif info.type == fs.FileType.File:
                files.append(self._stored(info))
        return sorted(files), sorted(folders)

    def info(self, name: str) -> StoredObject | None:
        info = self._call(name, self._system.get_file_info, self._key(name))
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(self.path(name))
        return self._stored(info) if info.type == fs.FileType.File else None

    def _stored(self, info: "fs.FileInfo") -> StoredObject:
        return StoredObject(info.path.removeprefix(self._path).lstrip("/"), info.size or 0)

    def read(self, name: str, start: int, length: int) -> bytes:
        file = self._files.get(name)
        if file is None:
            while len(self._files) >= _OPEN_FILES:
                self._files.pop(next(iter(self._files)), None)
            file = self._files[name] = self._call(name, self._system.open_input_file, self._key(name))
        return bytes(self._call(name, file.read_at, length, start))

    def _call(self, name: str, work: Any, *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise PathError(f"{self.path(name)}: {text_of(error)}") from error
        except Exception as error:  # some of pyarrow's are no OSError
            raise PathError(f"{self.path(name)}: {error}") from error


def is_stored(path: str) -> bool:
    """Whether a path is in a mounted store."""
    place = trees.find(path)
    return place is not None and isinstance(place.tree, UrlTree)
