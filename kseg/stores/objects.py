"""Objects of a store: names, sizes and ranges of bytes. All readers use the protocol `Objects`.

A name is a path relative to the store's root with "/" between its parts, as object stores have keys.
"""

import os
from collections.abc import Iterator
from typing import Protocol

from kseg.errors import PathError
from kseg.stores.extent import Extent
from kseg.stores.regular_files import open_descriptor
from kseg.stores.stored_object import StoredObject, is_url
from kseg.stores.unreadable import read_all


class Objects(Protocol):
    """A store that can be read. All methods raise PathError if the store cannot do it; threads may share a store."""

    @property
    def root(self) -> str:
        """The path or URL of the store, for messages."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yields the objects whose names begin with ``prefix``, sorted by name."""

    def size(self, name: str) -> int:
        """Returns the size of an object in bytes."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """Returns bytes of an object, fewer only at its end."""

    def path(self, name: str) -> str:
        """Returns the path or URL of an object, for messages."""


class LocalObjects:
    """The files below a local directory. Links below it are neither listed nor followed."""

    def __init__(self, root: str) -> None:
        self.root = root

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        folder = prefix.rpartition("/")[0]
        for found in self._below(folder):
            if found.name.startswith(prefix):
                yield found

    def _below(self, folder: str) -> Iterator[StoredObject]:
        """Yields the files below a folder; folders are read one after another, without recursion."""
        pending: list[str | StoredObject] = [folder]
        while pending:
            at = pending.pop()
            if isinstance(at, StoredObject):
                yield at
                continue
            inside: list[tuple[str, str | StoredObject]] = []
            try:
                with os.scandir(self.path(at)) as entries:
                    for entry in entries:
                        name = f"{at}/{entry.name}" if at else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            inside.append((name + "/", name))
                        elif entry.is_file(follow_symlinks=False):
                            inside.append((name, StoredObject(name, entry.stat(follow_symlinks=False).st_size)))
            except FileNotFoundError:
                continue  # a store has no empty folders
            except OSError as error:
                raise PathError(f"{self.path(at)}: {error.strerror}") from error
            pending.extend(item for _, item in sorted(inside, key=lambda found: found[0], reverse=True))

    def size(self, name: str) -> int:
        try:
            return os.stat(self.path(name), follow_symlinks=False).st_size
        except OSError as error:
            raise PathError(f"{self.path(name)}: {error.strerror}") from error

    def read(self, name: str, start: int, length: int) -> bytes:
        path = self.path(name)
        try:
            extent = Extent(open_descriptor(path))
            try:
                return read_all(extent, start, start + length)
            finally:
                extent.close()
        except OSError as error:
            raise PathError(f"{path}: {error.strerror or error}") from error

    def path(self, name: str) -> str:
        return os.path.join(self.root, *name.split("/")) if name else self.root


def open_objects(path: str) -> Objects:
    """Returns the store at a path or URL. Raises PathError if there is none, KsegError for an unknown kind of URL."""
    if is_url(path):
        from kseg.stores.object_urls import UrlObjects  # few have URLs

        return UrlObjects(path)
    if not os.path.isdir(path):
        raise PathError(f"{path}: no such directory")
    return LocalObjects(path)
