"""Expands a PATH argument to its segments."""

import glob
import os
from collections.abc import Iterable, Iterator

from kseg.errors import PathError
from kseg.segment.files import (
    SegmentFile,
    holds_segments,
    list_segments,
    own_partitions,
    parse_partition_name,
    segment_file,
)
from kseg.segment.passed_over import hint, is_log_directory
from kseg.stores.regular_files import expect_named


def expand_globs(paths: Iterable[str]) -> list[str]:
    """Expands globs; a path that exists or is a URL is no glob. Raises PathError for a glob without a match."""
    found: list[str] = []
    for path in paths:
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
    if not os.path.isdir(path):
        if path != "-" and not os.path.lexists(path):
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


def segments_at(path: str, everything: bool = False) -> list[SegmentFile]:
    """Returns the segments of one path of `expand_path`; those of a directory as `list_segments` returns them."""
    return list_segments(path, everything) if os.path.isdir(path) else [segment_file(path)]


def walk_path(path: str, everything: bool = False) -> Iterator[SegmentFile]:
    """Yields all segments of a PATH argument. Raises PathError as `expand_path` and `list_segments` do."""
    for part in expand_path(path):
        yield from segments_at(part, everything)
