"""Resolves the paths of a DataFrame: files, partition and log directories, and globs."""

from collections.abc import Iterable, Iterator

from kseg.errors import KsegError
from kseg.segment.paths import expand_globs, expand_path
from kseg.stores.objects import expand_url
from kseg.stores.stored_object import is_url, local_path


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
