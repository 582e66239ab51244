"""Objects of a store: names, sizes and ranges of bytes. All readers use `Objects`.

A name is a path relative to the store's root with "/" between its parts, as object stores have keys.
"""

import fnmatch
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, suppress

from kseg.errors import PathError, errors_at
from kseg.stores.extent import Extent
from kseg.stores.place import Place, place_in
from kseg.stores.source import read_all
from kseg.stores.stored_object import StoredObject, shown

# Globs in URLs: ``s3://bucket/logs/*-0``.

_MAGIC = frozenset("*[")


def has_glob(url: str) -> bool:
    """Whether a URL may be a glob: ``?`` begins its query, and matches nothing."""
    return not _MAGIC.isdisjoint(shown(url))


def expand_url(url: str, store: Place) -> list[Place]:
    """Returns the places of a URL, whose globs are expanded; one that exists is no glob. ``store``: its `store_root`.

    Raises PathError if nothing matches, or the store fails.
    """
    store.check()
    place = place_in(shown(url).rstrip("/"), [store])
    if not has_glob(url) or place.lexists():
        _ask(place)
        return [place]
    found = [store]
    for pattern in filter(None, place.removeprefix(store).split("/")):
        if not _MAGIC.isdisjoint(pattern):
            found = [place / name for place in found for name in _names(place, pattern)]
        else:
            found = [place / pattern for place in found]
    if not (found := [place for place in found if place.lexists()]):
        raise PathError(f"{shown(url)}: matches nothing")
    return found


def _ask(place: Place) -> None:
    """Raises PathError if the store cannot tell whether there is something: not that there is nothing."""
    try:
        if place.tree is not None:
            place.tree.node(place.inner)
    except OSError as error:
        raise PathError(error.strerror or str(error)) from error


def _names(directory: Place, pattern: str) -> list[str]:
    _ask(directory)
    if not directory.is_dir():
        return []
    with errors_at(directory), suppress(FileNotFoundError):
        return sorted(name for name in directory.names() if fnmatch.fnmatchcase(name, pattern))
    return []


Folder = tuple[list[StoredObject], list[str]]
"""Objects, and names of folders."""


class Objects(ABC):
    """A store that lists one folder at a time. ``root``: its path or URL.

    Methods raise PathError if the store cannot do it; threads may share a store.
    """

    root: str

    @abstractmethod
    def folder(self, name: str) -> Folder:
        """Returns the objects directly in a folder ("" for the root), and the names of its folders, sorted.

        Raises FileNotFoundError if there is no such folder, PathError for any other error.
        """

    @abstractmethod
    def read(self, name: str, start: int, length: int) -> bytes:
        """Returns bytes of an object, fewer only at its end."""

    def path(self, name: str) -> str:
        """Returns the path or URL of an object, for messages."""
        return f"{self.root}/{name}" if name else self.root

    def list(self) -> Iterator[StoredObject]:
        """Yields all objects, sorted by name. Folders are read one after another, without recursion."""
        pending: list[str | StoredObject] = [""]
        while pending:
            at = pending.pop()
            if isinstance(at, StoredObject):
                yield at
                continue
            try:
                files, folders = self.folder(at)
            except FileNotFoundError:
                continue  # a store has no empty folders
            inside: dict[str, str | StoredObject] = {file.name: file for file in files}
            inside |= {f"{name}/": name for name in (f"{at}/{folder}" if at else folder for folder in folders)}
            pending.extend(inside[key] for key in sorted(inside, reverse=True))


class LocalObjects(Objects):
    """The files below a local directory. Links below it are neither listed nor followed."""

    def __init__(self, root: str) -> None:
        self.root = root

    def folder(self, name: str) -> Folder:
        files, folders = list[StoredObject](), list[str]()
        try:
            with os.scandir(self.path(name)) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        inner = f"{name}/{entry.name}" if name else entry.name
                        files.append(StoredObject(inner, entry.stat(follow_symlinks=False).st_size))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise PathError(f"{self.path(name)}: {error.strerror}") from error
        return sorted(files), sorted(folders)

    def read(self, name: str, start: int, length: int) -> bytes:
        path = self.path(name)
        with errors_at(path), closing(Extent(Place(path).open_with_status()[0])) as extent:
            return read_all(extent, start, start + length)

    def path(self, name: str) -> str:
        return os.path.join(self.root, *name.split("/")) if name else self.root
