"""Objects below a URL or directory: those that a glob matches, and all."""

import fnmatch
from collections.abc import Iterator
from contextlib import suppress

from kseg.errors import PathError, errors_at
from kseg.stores.place import Place, place_in
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
    with errors_at(place):
        if place.tree is not None:
            place.tree.node(place.inner)


def _names(directory: Place, pattern: str) -> list[str]:
    _ask(directory)
    if not directory.is_dir():
        return []
    with errors_at(directory), suppress(FileNotFoundError):
        return sorted(name for name in directory.names() if fnmatch.fnmatchcase(name, pattern))
    return []


def objects_below(root: Place) -> Iterator[StoredObject]:
    """Yields all files below a directory or URL, sorted by name, which is relative to it with "/" between its parts.

    Folders are read one after another, without recursion; links are neither listed nor followed. Raises PathError.
    """
    pending: list[str | StoredObject] = [""]
    while pending:
        at = pending.pop()
        if isinstance(at, StoredObject):
            yield at
            continue
        folder, inside = root / at if at else root, dict[str, str | StoredObject]()
        with errors_at(folder), suppress(FileNotFoundError), folder.entries() as entries:
            for entry in entries:
                name = f"{at}/{entry.name}" if at else entry.name
                if entry.is_dir(follow_symlinks=False):
                    inside[f"{name}/"] = name
                elif entry.is_file(follow_symlinks=False):
                    inside[name] = StoredObject(name, entry.stat(follow_symlinks=False).st_size)
        pending.extend(inside[key] for key in sorted(inside, reverse=True))
