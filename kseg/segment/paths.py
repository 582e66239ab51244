"""Expands a PATH argument to its segments."""

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kseg.errors import KsegError, PathError
from kseg.segment.files import (
    SegmentFile,
    holds_segments,
    list_segments,
    own_partitions,
    parse_partition_name,
    regular_and_other_names,
    segment_file,
)
from kseg.segment.skipped_files import hint, is_log_directory
from kseg.stores import trees
from kseg.stores.regular_files import expect_named
from kseg.stores.stored_object import local_path


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


def partition_count(paths: Iterable[str]) -> int:
    """Returns the number of partitions and files at paths; what cannot be read counts as none."""
    count = 0
    for path in paths:
        with suppress(KsegError):
            count += len(expand_path(path))
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


def walk_path(path: str, everything: bool = False) -> Iterator[SegmentFile]:
    """Yields all segments of a PATH argument. Raises PathError as `expand_path` and `list_segments` do."""
    for part in expand_path(path):
        yield from segments_at(part, everything)


def segment_bytes(part: str, everything: bool = False) -> int:
    """Returns the total size of the segments of a partition or file. Raises KsegError, OSError."""
    return sum(trees.getsize(file.path) for file in segments_at(part, everything))
