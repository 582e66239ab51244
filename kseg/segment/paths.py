"""Expands a PATH argument to its segments, and finds the files that commands skip."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kseg.errors import KsegError, PathError
from kseg.segment.file_types import holds_batches, is_packed_segment, named_like_segment, packing_of, read_head
from kseg.segment.files import (
    LOG_DIRECTORY_FILES,
    OWN_PREFIX,
    SegmentFile,
    holds_segments,
    is_part_of_log,
    list_segments,
    own_partitions,
    parse_partition_name,
    regular_and_other_names,
    segment_file,
)
from kseg.stores import trees
from kseg.stores.archives.forms import REDPANDA_NAME
from kseg.stores.regular_files import expect_named
from kseg.stores.source import open_source
from kseg.stores.stored_object import local_path

# Skipped files: log directories in subdirectories, and segments with other names.

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
    if inside := log_directories_in(path):
        return f"; log directories in it: {some(inside)}"
    found = sorted(filter(REDPANDA_NAME.fullmatch, regular_and_other_names(path)[0]))
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


def some(names: list[str], most: int = MAX_NAMES) -> str:
    """Returns at most so many of the names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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


def expand_globs(paths: Iterable[str]) -> list[str]:
    """Expands globs; a path that exists or is a URL is no glob, except ``file:``. Raises PathError without a match."""
    found: list[str] = []
    for path in map(local_path, paths):
        if "://" in path or os.path.lexists(path) or not glob.has_magic(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise PathError(f"{path}: matches nothing")
        found += matches
    return found


def expand_path(path: str) -> list[str]:
    """Expands a PATH argument: a file or partition directory to itself, a log directory to its partition directories.

    Links in a log directory are left out. Raises PathError if ``path`` does not exist or holds nothing of Kafka's.
    """
    trees.check(path)
    if not trees.isdir(path):
        if path != "-" and not trees.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        expect_named(path)
        return [path]
    if holds_segments(path):
        return [path]
    if (partitions := own_partitions(path)) and is_log_directory(path):
        return partitions
    # Checked last, because a log directory may be called data-1.
    inside = hint(path)
    if parse_partition_name(os.path.basename(os.path.realpath(path))) and not inside:
        return [path]
    text = inside or " (no .log, .kafka or .checkpoint file in it)"
    raise PathError(f"{path}: neither a partition nor a log directory{text}")


def partition_count(paths: Iterable[str], parts_of: Callable[[str], list[str]] = expand_path) -> int:
    """Returns the number of partitions and files at paths; what cannot be read counts as none. ``parts_of``: returns
    those of a path."""
    count = 0
    for path in paths:
        with suppress(KsegError):
            count += len(parts_of(path))
    return count


def roots_of(path: str) -> list[str]:
    """Returns the log directories, partitions and directories of segments in an archive at any depth, by name.

    Returns the path itself if it is not that of an archive, or if there is nothing in it. Raises PathError.
    """
    trees.check(path)
    place = trees.find(path)
    if place is None or not place.tree.is_archive or not trees.isdir(path):
        return [path]
    return list(_roots_in(path)) or [path]


def places_of(paths: Iterable[str]) -> list[str]:
    """Returns the paths; archives are replaced by their log directories and partitions."""
    places: list[str] = []
    for path in paths:
        try:
            places += roots_of(path)
        except KsegError:
            places.append(path)  # whoever reads it reports it
    return places


def _roots_in(path: str) -> Iterator[str]:
    places = [os.path.join(path, name) for name in sorted(regular_and_other_names(path)[1])]
    inside = [place for place in places if trees.isdir(place)]
    if is_log_directory(path):
        yield path
        inside = [place for place in inside if parse_partition_name(os.path.basename(place)) is None]
    elif holds_segments(path):
        yield path
    for place in inside:
        yield from _roots_in(place)


def segments_at(path: str, everything: bool = False) -> list[SegmentFile]:
    """Returns the segments of one path of `expand_path`; those of a directory as `list_segments` returns them."""
    return list_segments(path, everything) if trees.isdir(path) else [segment_file(path)]


def walk_path(path: str) -> Iterator[SegmentFile]:
    """Yields all segments of a PATH argument. Raises PathError as `expand_path` and `list_segments` do."""
    for part in expand_path(path):
        yield from segments_at(part)


def segment_bytes(part: str, everything: bool = False) -> int:
    """Returns the total size of the segments of a partition or file. Raises KsegError, OSError."""
    return sum(trees.getsize(file.path) for file in segments_at(part, everything))
