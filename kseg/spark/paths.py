"""Resolves the paths of a DataFrame: files, partition and log directories, and globs."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from kseg.errors import KsegError, UnsupportedError
from kseg.segment.paths import expand_globs, expand_path
from kseg.stores.stored_object import is_url


def local_paths(paths: Iterable[str]) -> list[str]:
    """Returns paths with globs expanded. Raises PathError if nothing matches, KsegError if there is no path."""
    found = expand_globs(map(without_scheme, paths))
    if not found:
        raise KsegError("format kseg needs a path: load('orders-0'); a table needs one, and no columns of its own")
    return found


def without_scheme(path: str) -> str:
    """Returns the path of a file URL: file:/a, file:///a and /a are the same file."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    return path


def local_only(paths: Iterable[str], what: str) -> None:
    """Raises UnsupportedError for a URL."""
    for path in paths:
        if is_url(path):
            raise UnsupportedError(f"{path}: {what} reads local paths")


def places(paths: Iterable[str]) -> Iterator[str]:
    """Yields the files and partition directories of paths (`kseg.segment.files.expand_path`)."""
    for path in local_paths(paths):
        yield from expand_path(path)
