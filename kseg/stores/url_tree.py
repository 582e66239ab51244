"""Objects at URLs as a tree of files: listed folder by folder, read by ranges, several requests at a time."""

import errno
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from kseg.errors import KsegError, PathError, errors_at, text_of
from kseg.positioned import write_all
from kseg.stores.archives.spool import Spool
from kseg.stores.extent import Extent
from kseg.stores.objects import Objects
from kseg.stores.source import FetchedSource
from kseg.stores.trees import DIRECTORY, FILE, Node, Tree

BLOCK_BYTES = 256 << 10
"""Least size of a request; mostly it has all bytes between two entries of an index."""
REQUEST_BYTES = 4 << 20
"""Largest size of a request; larger ranges are read with several at the same time."""
REQUESTS = 8
"""Limit of concurrent requests."""
_KEPT_BYTES = 16 << 20
"""Objects of at most this size are fetched once and kept in the spool: side files are opened again and again."""


class UrlTree(Tree):
    """The objects of a store."""

    def __init__(self, objects: Objects, spool: Spool) -> None:
        super().__init__()
        self._objects, self.spool = objects, spool
        self._folders: dict[str, dict[str, Node]] = {}
        self._infos: dict[str, Node | None] = {}
        self._kept: dict[str, Extent] = {}
        self._threads: ThreadPoolExecutor | None = None

    def node(self, inner: str) -> Node | None:
        folder, name = os.path.split(inner)
        if folder in self._folders:
            return self._folders[folder].get(name) if inner else Node(DIRECTORY)
        if inner in self._folders:
            return Node(DIRECTORY)
        if inner not in self._infos:
            self._infos[inner] = self._info(inner)
        return self._infos[inner]

    def _info(self, inner: str) -> Node | None:
        try:
            found = self._objects.info(inner)
        except FileNotFoundError:
            return None
        except PathError as error:
            raise OSError(errno.EIO, str(error)) from error
        return Node(DIRECTORY) if found is None else _node(found.name, found.size)

    def nodes(self, inner: str) -> Iterable[tuple[str, Node]]:
        if inner not in self._folders:
            try:
                files, folders = self._objects.folder(inner)
            except PathError as error:
                raise OSError(errno.EIO, str(error)) from error
            found = {name: Node(DIRECTORY) for name in folders}
            found |= {os.path.basename(file.name): _node(file.name, file.size) for file in files}
            self._folders[inner] = found
        return self._folders[inner].items()

    def forget(self, inner: str) -> None:
        """Frees the listing of a folder."""
        self._folders.pop(inner, None)

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
                raise OSError(errno.EIO, str(error)) from error
        return self._kept[inner].again()

    def source(self, inner: str, path: str) -> "ObjectSource":
        """Opens an object whose ranges are fetched when they are needed. Raises PathError."""
        with errors_at(path):
            return ObjectSource(self, inner, path, self._size(inner))

    def read(self, inner: str, first: int, stop: int) -> Iterator[bytes]:
        """Yields the bytes of a range, whose parts are requested at the same time. Raises PathError."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(REQUESTS)
        parts = [(start, min(start + REQUEST_BYTES, stop)) for start in range(first, stop, REQUEST_BYTES)]
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


def _node(name: str, size: int) -> Node:
    return Node(FILE, size, number=hash(name))


class ObjectSource(FetchedSource):
    """An object in a store, read in place."""

    largest_step = REQUESTS * REQUEST_BYTES // BLOCK_BYTES

    def __init__(self, tree: UrlTree, inner: str, path: str, size: int) -> None:
        super().__init__(path, size, BLOCK_BYTES)
        self._tree, self._inner = tree, inner

    def _new_file(self) -> int:
        return self._tree.spool.new_file(self.size)

    def _fetch(self, first: int, stop: int, descriptor: int) -> None:
        position, end = first * BLOCK_BYTES, min(stop * BLOCK_BYTES, self.size)
        for piece in self._tree.read(self._inner, position, end):
            try:
                write_all(descriptor, piece, position)
            except OSError as error:
                raise KsegError(f"{self.path}: cannot be spooled: {text_of(error)}") from error
            position += len(piece)
