"""Reads objects of an object store or another file system by URL, with fsspec: s3://, gs://, abfs://, http://, …

Credentials are found by the library that fsspec uses for the scheme. `shown` removes those that a URL itself contains.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kseg.errors import KsegError, PathError, errors_at, text_of
from kseg.positioned import write_all
from kseg.stores.archives.spool import Spool, current_spool
from kseg.stores.extent import Extent
from kseg.stores.http_requests import SCHEMES, HttpRequests, take_attempts_and_seconds
from kseg.stores.place import Place
from kseg.stores.source import FetchedSource
from kseg.stores.stored_object import StoredObject, credentials_of, is_url, shown, without_credentials
from kseg.stores.trees import DIRECTORY, FILE, Tree, TreeNode

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

REQUEST_BYTES = 8 << 20
"""Most bytes of one request; larger ranges are read with several."""

_WEBHDFS = ("webhdfs", "swebhdfs")
BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs"}
"""The schemes of buckets and containers, each with the usual one of its store."""
_NO_LIBHDFS = (
    "needs Hadoop's libhdfs on each machine (HADOOP_HOME, CLASSPATH) and a name node that answers; "
    "webhdfs://HOST:9870/PATH needs no libhdfs"
)
_ELSEWHERE = "give them in the environment or the configuration file of the store's library"


def check_credentials(url: str) -> None:
    """Raises KsegError for a user or password in the URL of a bucket or container, where no library reads them."""
    if urlsplit(url).scheme in BUCKETS and credentials_of(url):
        raise KsegError(f"{shown(url)}: its URL has a user or password, which are not read from there: {_ELSEWHERE}")


Folder = tuple[list[StoredObject], list[str]]
"""Objects, and names of folders."""


class UrlObjects:
    """The objects at a URL, by their paths relative to it; threads may share it. Methods raise PathError if the store
    cannot do it.

    ``settings``: parameters of its file system, or ``max_attempts`` and ``request_timeout`` of plain http and WebHDFS.
    A URL with ``name_nodes`` is read by WebHDFS. ``pause`` waits for a number of seconds between two requests to a busy
    server. ``opened``: the file system, and the path of the URL in it; None to open it.
    """

    def __init__(
        self,
        url: str,
        settings: Mapping[str, Any] | None = None,
        pause: Callable[[float], object] = time.sleep,
        opened: tuple[Any, str] | None = None,
    ) -> None:
        check_credentials(url)
        self.root, self._url = shown(url).rstrip("/"), url
        scheme, given = urlsplit(url).scheme, dict(settings or {})
        self._http: HttpRequests | None = None
        if scheme in SCHEMES:
            try:
                import aiohttp

                attempts, seconds = take_attempts_and_seconds(given)
                given["timeout"] = aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)
            except ValueError as error:
                raise KsegError(f"{self.root}: {error}") from error
            except ImportError as error:
                raise _missing(self.root, error) from error
            self._http = HttpRequests(attempts, pause)
        self._system, root = opened or open_url(url, given, pause)
        # Of http the root is the URL itself, whose query belongs to a single object.
        self._root = root.rstrip("/")

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def path(self, name: str) -> str:
        """Returns the URL of an object, for messages."""
        return f"{self.root}/{name}" if name else self.root

    def folder(self, name: str) -> Folder:
        """Returns the objects directly in a folder ("" for the root), and the names of its folders, sorted. Raises
        FileNotFoundError if there is no such folder."""
        files, folders = [], []
        for info in self._read(name, self._system.ls, self._key(name), detail=True):
            inner = str(info["name"]).removeprefix(self._root).lstrip("/")
            if info["type"] == "directory":
                folders.append(os.path.basename(inner.rstrip("/")))
            elif inner != name and inner and not inner.endswith("/"):  # some stores list a folder in itself
                files.append(StoredObject(inner, int(info["size"] or 0)))
        return sorted(files), sorted({folder for folder in folders if folder})

    def info(self, name: str) -> StoredObject | None:
        """Returns an object, None if it is a folder. Raises FileNotFoundError if there is neither, PathError."""
        info = self._read(name, self._system.info, self._key(name))
        if info["type"] == "directory":
            return None
        if info.get("size") is None:
            raise PathError(f"{self.path(name)}: the server does not report its size")
        return StoredObject(name, int(info["size"]))

    def read(self, name: str, start: int, length: int) -> bytes:
        """Returns bytes of an object, fewer only at its end."""
        path, found = self._key(name), bytearray()
        while len(found) < length:
            first = start + len(found)
            stop = min(start + length, first + REQUEST_BYTES)
            try:
                piece = self._read(name, self._system.cat_file, path, start=first, end=stop)
            except FileNotFoundError as error:
                raise PathError(f"{self.path(name)}: no such object") from error
            if len(piece) > REQUEST_BYTES:  # each request would transfer all of it
                raise PathError(f"{self.path(name)}: the server sends no ranges of bytes: download the file first")
            if len(piece) > stop - first:  # plain http servers may ignore ranges, and send the whole object
                piece = piece[first:stop]
            found += piece
            if len(piece) < stop - first:
                break
        return bytes(found)

    def write(self, name: str, content: bytes) -> None:
        """Writes an object; one that exists is replaced."""
        self._call(name, self._system.pipe_file, self._key(name), content)

    def upload(self, name: str, path: str) -> None:
        """Writes an object with the bytes of a local file."""
        self._call(name, self._system.put_file, path, self._key(name))

    def download(self, name: str, path: str) -> None:
        """Writes the bytes of an object to a local file."""
        found = self.info(name)
        with open(path, "wb") as file:
            for start in range(0, found.size if found else 0, REQUEST_BYTES):
                file.write(self.read(name, start, REQUEST_BYTES))

    def put(self, name: str, target: str) -> None:
        """Copies an object inside the store; in HDFS, where a new name costs nothing, renames it."""
        folder = self._key(target).rpartition("/")[0]
        self._call(target, partial(self._system.makedirs, exist_ok=True), folder)
        put = self._system.mv if "webhdfs" in self._system.protocol else self._system.cp_file
        self._call(target, put, self._key(name), self._key(target))

    def remove(self, name: str) -> None:
        self._call(name, self._system.rm_file, self._key(name))

    def remove_folder(self, name: str) -> None:
        """Removes all objects in a folder, if it is there."""
        with suppress(FileNotFoundError):
            self._call(name, partial(self._system.rm, recursive=True), self._key(name))

    def _read(self, name: str, work: Any, *arguments: Any, **options: Any) -> Any:
        """Calls the library as `_call`; requests of plain http are repeated."""
        if self._http is None:
            return self._call(name, work, *arguments, **options)
        return self._call(name, self._http.call, work, *arguments, **options)

    def _call(self, name: str, work: Any, *arguments: Any, **options: Any) -> Any:
        """Calls the library. Raises FileNotFoundError, KsegError for a missing package, PathError for other errors."""
        try:
            return work(*arguments, **options)
        except FileNotFoundError:
            raise
        except ImportError as error:
            raise _missing(self.path(name), error) from error
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            # The text may repeat the URL, and a traceback must not show the library's error.
            raise PathError(f"{self.path(name)}: {without_credentials(_error_text(error), self._url)}") from None


def directory_at(path: str) -> Place:
    """Returns the place of a directory or URL, whose store is opened. Raises PathError if there is no such directory,
    KsegError for an unknown kind of URL, and for a store or archive that could not be opened."""
    place = Place(path)
    place.check()
    if place.tree is None and is_url(path):
        return Place(shown(path).rstrip("/"), UrlTree(UrlObjects(path), current_spool()))
    if not place.is_dir():
        raise PathError(f"{path}: no such directory")
    return place


def open_url(url: str, settings: Mapping[str, Any], pause: Callable[[float], object] = time.sleep) -> tuple[Any, str]:
    """Returns fsspec's file system of a URL, and the path in it. Raises KsegError."""
    place = shown(url).rstrip("/")
    scheme = urlsplit(url).scheme
    try:
        import fsspec

        if scheme in _WEBHDFS or "name_nodes" in settings:
            from kseg.stores.webhdfs import open_webhdfs  # imports requests

            return open_webhdfs(url, settings, pause)
        # No cache of the bytes of open files, as logs change.
        uncached = {"default_cache_type": "none"} if scheme in ("s3", "s3a") else {}
        system, root = fsspec.core.url_to_fs(url, **uncached, **settings)
    except ImportError as error:
        raise _missing(place, error) from error
    except KsegError:
        raise
    except (ValueError, TypeError, OSError) as error:
        text = _NO_LIBHDFS if scheme == "hdfs" and isinstance(error, OSError) else type(error).__name__
        if scheme not in (*fsspec.registry, *fsspec.available_protocols()):
            text = f"fsspec has no file system for {scheme}:, and those of Hadoop cannot be used"
        raise KsegError(f"{place}: {text}") from None  # the text may repeat the URL
    return system, str(root)


def _missing(place: str, error: ImportError) -> KsegError:
    return KsegError(f"{place}: {error} (pip install 'kseg[stores]')")


def _error_text(error: Exception) -> str:
    status = getattr(error, "status", None)  # of aiohttp's errors
    if isinstance(status, int):
        return f"the server answered {status} {getattr(error, 'message', '')}".rstrip()
    if isinstance(error, TimeoutError) and not str(error):
        return "the server did not answer in time"
    name = "" if isinstance(error, OSError) or not str(error) else f"{type(error).__name__}: "
    return f"{name}{text_of(error)}"


# Objects at URLs as a tree of files: listed folder by folder, read by ranges, several requests at a time.

BLOCK_BYTES = 256 << 10
"""Least size of a request of `ObjectSource`; mostly it has all bytes between two entries of an index."""
PART_BYTES = 4 << 20
"""Largest part of a range that `UrlTree` reads with one request; it makes several requests at the same time."""
REQUESTS = 8
"""Limit of concurrent requests."""
_KEPT_BYTES = 16 << 20
"""Objects of at most this size are fetched once and kept in the spool: side files are opened again and again."""


class UrlTree(Tree):
    """The objects of a store."""

    def __init__(self, objects: UrlObjects, spool: Spool) -> None:
        super().__init__()
        self._objects, self.spool = objects, spool
        self._folders: dict[str, dict[str, TreeNode]] = {}
        self._infos: dict[str, TreeNode | None] = {}
        self._kept: dict[str, Extent] = {}
        self._threads: ThreadPoolExecutor | None = None

    def node(self, inner: str) -> TreeNode | None:
        folder, name = os.path.split(inner)
        if folder in self._folders:
            return self._folders[folder].get(name) if inner else TreeNode(DIRECTORY)
        if inner in self._folders:
            return TreeNode(DIRECTORY)
        if inner not in self._infos:
            try:
                found = self._objects.info(inner)
                self._infos[inner] = TreeNode(DIRECTORY) if found is None else _node(found)
            except FileNotFoundError:
                self._infos[inner] = None
            except PathError as error:
                raise self._failure(inner, error) from error
        return self._infos[inner]

    def nodes(self, inner: str) -> Iterable[tuple[str, TreeNode]]:
        if inner not in self._folders:
            try:
                files, folders = self._objects.folder(inner)
            except PathError as error:
                raise self._failure(inner, error) from error
            found = {name: TreeNode(DIRECTORY) for name in folders}
            found |= {os.path.basename(file.name): _node(file) for file in files}
            self._folders[inner] = found
        return self._folders[inner].items()

    def forget(self, inner: str) -> None:
        """Frees the listing of a folder."""
        self._folders.pop(inner, None)

    def _failure(self, inner: str, error: PathError) -> OSError:
        return OSError(errno.EIO, str(error).removeprefix(f"{self._objects.path(inner)}: "))

    def _size(self, inner: str) -> int:
        node = self.node(inner)
        if node is None or node.kind != FILE:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._objects.path(inner))
        return node.size

    def open(self, inner: str) -> Extent:
        if inner not in self._kept:
            size = self._size(inner)
            if size > _KEPT_BYTES:
                with ObjectSource(self, inner, self._objects.path(inner), size) as source:
                    return source.extent.again()
            try:
                self._kept[inner] = self.spool.add(self.read(inner, 0, size))
            except PathError as error:
                raise self._failure(inner, error) from error
        return self._kept[inner].again()

    def read_range(self, inner: str, start: int, length: int) -> bytes:
        return self._objects.read(inner, start, length)

    def source(self, inner: str, path: str) -> "ObjectSource":
        """Opens an object whose ranges are fetched when they are needed. Raises PathError."""
        with errors_at(path):
            return ObjectSource(self, inner, path, self._size(inner))

    def read(self, inner: str, first: int, stop: int) -> Iterator[bytes]:
        """Yields the bytes of a range, whose parts are requested at the same time. Raises PathError."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # most runs read no URL

            self._threads = ThreadPoolExecutor(REQUESTS)
        parts = [(start, min(start + PART_BYTES, stop)) for start in range(first, stop, PART_BYTES)]
        for at in range(0, len(parts), REQUESTS):
            some = parts[at : at + REQUESTS]
            data = self._threads.map(lambda part: self._objects.read(inner, part[0], part[1] - part[0]), some)
            for (start, end), piece in zip(some, data, strict=True):
                if len(piece) < end - start:
                    raise PathError(f"{self._objects.path(inner)}: has become shorter while it was read")
                yield piece

    def close(self) -> None:
        for made in self._kept.values():
            made.close()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None


def _node(found: StoredObject) -> TreeNode:
    return TreeNode(FILE, found.size, number=hash(found.name))


class ObjectSource(FetchedSource):
    """An object in a store, read in place."""

    largest_step = REQUESTS * PART_BYTES // BLOCK_BYTES

    def __init__(self, tree: UrlTree, inner: str, path: str, size: int) -> None:
        super().__init__(path, size, BLOCK_BYTES)
        self._tree, self._inner = tree, inner

    def _new_file(self) -> int:
        return self._tree.spool.new_file(self.size)

    def _fetch(self, first: int, stop: int, descriptor: int) -> None:
        position, end = first * BLOCK_BYTES, min(stop * BLOCK_BYTES, self.size)
        for piece in self._tree.read(self._inner, position, end):
            with errors_at(f"{self.path}: cannot be spooled", KsegError):
                write_all(descriptor, piece, position)
            position += len(piece)
