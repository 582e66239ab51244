"""Resolves the paths of a DataFrame: files, partition and log directories, and globs."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.segment.paths import expand_path
from kseg.spark.stores import is_stored

T = TypeVar("T")


def local_paths(paths: Iterable[str]) -> list[str]:
    """Returns paths with globs expanded. Raises PathError if nothing matches, KsegError if there is no path."""
    found: list[str] = []
    for path in paths:
        path = without_scheme(path)
        if os.path.lexists(path) or not glob.has_magic(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise PathError(f"{path}: matches nothing")
        found += matches
    if not found:
        raise KsegError("format kseg needs a path: load('orders-0')")
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
        if is_stored(path):
            raise UnsupportedError(f"{path}: {what} reads local paths")


def places(paths: Iterable[str]) -> Iterator[str]:
    """Yields the files and partition directories of paths (`kseg.segment.files.expand_path`)."""
    for path in local_paths(paths):
        yield from expand_path(path)


def grouped(parts: Iterable[tuple[int, T]], limit: int) -> list[Sequence[T]]:
    """Groups consecutive parts, each with its size, up to ``limit`` bytes. Each group is a task."""
    groups: list[list[T]] = []
    room = 0
    for size, part in parts:
        cost = size + TASK_BYTES
        if not groups or cost > room:
            groups.append([])
            room = limit
        groups[-1].append(part)
        room -= cost
    return list(groups)


TASK_BYTES = 1 << 18
"""Cost of opening a file, in bytes read."""
