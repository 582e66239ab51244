"""Objects of a store: names, sizes and ranges of bytes. All readers use the protocol `Objects`.

A name is a path relative to the store's root with "/" between its parts, as object stores have keys.
"""

import fnmatch
import os
import posixpath
from collections.abc import Iterator
from typing import Protocol

from kseg.errors import PathError
from kseg.stores import trees
from kseg.stores.extent import Extent
from kseg.stores.object_urls import store_root
from kseg.stores.regular_files import open_descriptor
from kseg.stores.stored_object import StoredObject, is_url, shown
from kseg.stores.unreadable import read_all

# Globs in URLs of mounted stores: ``s3://bucket/logs/*-0``.


def has_glob(url: str) -> bool:
    """Whether a URL may be a glob: ``?`` begins its query, and matches nothing."""
    return any(map(_is_magic, shown(url).split("/")))


def expand_url(url: str) -> list[str]:
    """Expands the globs of a URL in a mounted store; one that exists is no glob.

    Raises PathError if nothing matches, or the store fails.
    """
    url, root = shown(url), shown(store_root(url))
    trees.check(root)
    patterns = [part for part in url.removeprefix(root).split("/") if part]
    if not has_glob(url) or trees.lexists(url):
        _ask(url)
        return [url.rstrip("/")]
    found = [root]
    for pattern in patterns:
        if _is_magic(pattern):
            found = [posixpath.join(place, name) for place in found for name in _names(place, pattern)]
        else:
            found = [posixpath.join(place, pattern) for place in found]
    found = [path for path in found if trees.lexists(path)]
    if not found:
        raise PathError(f"{url}: matches nothing")
    return found


def _ask(url: str) -> None:
    """Raises PathError if the store cannot tell whether there is something: not that there is nothing."""
    place = trees.find(url)
    try:
        if place is not None:
            place.node()
    except OSError as error:
        raise PathError(error.strerror or str(error)) from error


def _is_magic(part: str) -> bool:
    return any(sign in part for sign in "*[")


def _names(directory: str, pattern: str) -> list[str]:
    _ask(directory)
    if not trees.isdir(directory):
        return []
    try:
        return sorted(name for name in trees.listdir(directory) if fnmatch.fnmatchcase(name, pattern))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PathError(f"{directory}: {error.strerror}") from error


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
