"""The segments that a PATH of the command line stands for."""

import os
from collections.abc import Iterator

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
from kseg.segment.regular_files import expect_named


def expand_path(path: str) -> list[str]:
    """What a PATH of the command line stands for: itself if it is a file or a partition directory, else the partition
    directories of a log directory, links left out.

    Raises PathError where there is nothing at ``path``, or nothing of Kafka's in it.
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
    # Only now: a log directory may well be called data-1.
    inside = hint(path)
    if parse_partition_name(os.path.basename(os.path.realpath(path))) and not inside:
        return [path]
    text = inside or " (no .log, .kafka or .checkpoint file in it)"
    raise PathError(f"{path}: neither a partition nor a log directory{text}")


def segments_at(path: str, everything: bool = False) -> list[SegmentFile]:
    """The segments of one path of `expand_path`; of a directory as `list_segments` gives them."""
    return list_segments(path, everything) if os.path.isdir(path) else [segment_file(path)]


def walk_path(path: str, everything: bool = False) -> Iterator[SegmentFile]:
    """All segments that a PATH stands for. Raises PathError as `expand_path` and `list_segments` do."""
    for part in expand_path(path):
        yield from segments_at(part, everything)
