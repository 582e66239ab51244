"""Finds files that commands skip: log directories in subdirectories, and segments with other names."""

import os
from collections.abc import Callable, Iterator

from kseg.errors import PathError
from kseg.segment.file_types import holds_batches, is_packed_segment, named_like_segment, packing_of, read_head
from kseg.segment.files import (
    LOG_DIRECTORY_FILES,
    OWN_PREFIX,
    is_part_of_log,
    parse_partition_name,
    regular_and_other_names,
)
from kseg.stores import trees
from kseg.stores.source import open_source

DEPTH = 4
"""Number of directory levels searched."""
MAX_DIRECTORIES = 10_000
MAX_NAMES = 5


def log_directories_in(path: str) -> list[str]:
    """Returns log directories below a directory without following links; searches `DEPTH` levels and
    `MAX_DIRECTORIES`."""
    found: list[str] = []
    for looked_at, (directory, files, others) in enumerate(_walk(path, DEPTH)):
        if looked_at >= MAX_DIRECTORIES:
            break
        if directory != path and _is_log_directory(directory, files, others):
            found.append(directory)
    return [directory for directory in found if os.path.dirname(directory) not in found]


def is_log_directory(path: str) -> bool:
    """Whether a directory has files of a log directory, or holds partitions rather than other log directories.

    Raises PathError if it cannot be read.
    """
    return _is_log_directory(path, *regular_and_other_names(path))


def hint(path: str) -> str:
    """Returns an addition to an error about an unknown directory: the log directories, or segments of Redpanda, in it;
    "" if there are none."""
    from kseg.stores.redpanda import is_redpanda_name  # only for this error

    if inside := log_directories_in(path):
        return f"; log directories in it: {some(inside)}"
    found = sorted(filter(is_redpanda_name, regular_and_other_names(path)[0]))
    return f"; segments of Redpanda in it, which are read one by one: {some(found)}" if found else ""


def skipped_files(directory: str, is_packed_only: bool = False) -> list[str]:
    """Returns names in a partition directory that resemble segments but are read only by `kseg verify`, sorted.

    ``is_packed_only``: only packed files. Raises PathError if the directory cannot be read.
    """
    files, others = regular_and_other_names(directory)
    odd = [name for name in files if not is_part_of_log(name) and not name.startswith(OWN_PREFIX)]
    found = [name for name in odd if _seems_segment(os.path.join(directory, name), name, is_packed_only)]
    linked = [name for name in others + files if _is_linked_partition(directory, name)]
    found += [name for name in others if named_like_segment(name) and not name.startswith(OWN_PREFIX)]
    return sorted({*found, *linked})


def _is_linked_partition(directory: str, name: str) -> bool:
    """Whether it is a link to a directory called as a partition: links lead out of a log directory."""
    if parse_partition_name(name) is None:
        return False
    path = os.path.join(directory, name)
    return trees.islink(path) and trees.isdir(path)


def warn_of_skipped_files(path: str, is_empty: bool, warn: Callable[[str], None], is_packed_only: bool = False) -> None:
    """Reports the skipped files of a partition directory. ``is_empty``: it has no other segment. For
    ``is_packed_only`` see `skipped_files`.

    Raises PathError if there is nothing else, so that an empty result is not taken for a complete one.
    """
    if not trees.isdir(path) or not (names := skipped_files(path, is_packed_only)):
        return
    packed = [name for name in names if _is_packed(os.path.join(path, name))]
    reads = "; kseg dump reads a packed segment that it is given by name" if packed else ""
    text = f"not read: {some(names)} (kseg verify shows more{reads})"
    if is_empty:
        raise PathError(f"{path}: no segment under a name that brokers give; {text}")
    warn(f"{path}: {text}")


def _is_packed(path: str) -> bool:
    try:
        with open_source(path) as source:
            return packing_of(read_head(source)) is not None
    except PathError:
        return False


def some(names: list[str]) -> str:
    """Returns a few of the names, and the number of the others."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _seems_segment(path: str, name: str, is_packed_only: bool) -> bool:
    try:
        with open_source(path) as source:
            head = read_head(source)
            if packing_of(head) is not None:
                return is_packed_segment(name, head)
            return not is_packed_only and holds_batches(source, name)
    except PathError:
        return named_like_segment(name)


def _walk(path: str, depth: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields each directory with its files and subdirectories, top down."""
    try:
        files, others = regular_and_other_names(path)
    except PathError:
        return
    places = {name: os.path.join(path, name) for name in sorted(others) if not name.startswith(OWN_PREFIX)}
    directories = [name for name, place in places.items() if trees.isdir(place) and not trees.islink(place)]
    yield path, files, directories
    for name in directories if depth else ():
        yield from _walk(places[name], depth - 1)


def _is_log_directory(path: str, files: list[str], others: list[str]) -> bool:
    if not LOG_DIRECTORY_FILES.isdisjoint(files):
        return True
    for name in others:
        if parse_partition_name(name) is not None and trees.isdir(os.path.join(path, name)):
            inside, below = regular_and_other_names(os.path.join(path, name))
            if any(map(is_part_of_log, inside)) and LOG_DIRECTORY_FILES.isdisjoint(inside):
                return True
            if not inside and not below:
                return True  # a partition without files
    return False
