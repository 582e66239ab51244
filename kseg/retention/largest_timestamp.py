"""Determines the timestamp that decides a segment's age: LogSegment.largestTimestamp.

A broker does not search for the newest record. After loading a segment it uses the last entry of the time index. If
there is no entry, or the release has no time index, it uses the modification time of the .log.
"""

from typing import NamedTuple

from kseg.errors import PathError
from kseg.formats.suffixes import LOG, TIME_INDEX
from kseg.sidefiles.time_index import last_time_entry
from kseg.stores import trees


class Largest(NamedTuple):
    """``timestamp`` in ms. ``offset``: of the time index entry, at most the last offset of the record's batch; None if
    the timestamp is the file's modification time."""

    timestamp: int
    offset: int | None


def largest_timestamp(log_path: str, base_offset: int, has_time_index: bool) -> Largest:
    """Returns the largest timestamp of the segment at ``log_path``. Raises KsegError if a file cannot be read."""
    entry = last_time_entry(log_path.removesuffix(LOG) + TIME_INDEX, base_offset) if has_time_index else None
    if entry is not None and entry.timestamp >= 0:
        return Largest(*entry)
    try:
        return Largest(trees.status(log_path).st_mtime_ns // 1_000_000, None)
    except OSError as error:
        raise PathError(f"{log_path}: {error.strerror}") from error
