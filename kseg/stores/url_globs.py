"""Globs in URLs of mounted stores: ``s3://bucket/logs/*-0``."""

import fnmatch
import posixpath

from kseg.errors import PathError
from kseg.stores import trees
from kseg.stores.object_urls import store_root
from kseg.stores.stored_object import shown


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
