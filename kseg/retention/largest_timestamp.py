"""Determines the timestamp that decides a segment's age: LogSegment.largestTimestamp.

A broker does not search for the newest record. After loading a segment it uses the last entry of the time index. If
there is no entry, or the release has no time index, it uses the modification time of the .log.
"""

import stat
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.sidefiles.time_index import TimeIndex
from kseg.stores import trees
from kseg.stores.source import open_source

TIME_INDEX = "time index"
FILE_TIME = "file time"
LARGEST_BYTES = (1 << 31) - 1
"""Largest size of an index; brokers map it with an int size."""


class Largest(NamedTuple):
    """``timestamp`` in ms. ``offset``: of the time index entry, at most the last offset of the record's batch; None if
    the timestamp is the file's modification time."""

    timestamp: int
    offset: int | None

    @property
    def source(self) -> str:
        return FILE_TIME if self.offset is None else TIME_INDEX


def largest_timestamp(log_path: str, base_offset: int, has_time_index: bool) -> Largest:
    """Returns the largest timestamp of the segment at ``log_path``. Raises KsegError if a file cannot be read."""
    entry = _last_entry(log_path.removesuffix(".log") + ".timeindex", base_offset) if has_time_index else None
    if entry is not None and entry.timestamp >= 0:
        return entry
    try:
        return Largest(trees.status(log_path).st_mtime_ns // 1_000_000, None)
    except OSError as error:
        raise PathError(f"{log_path}: {error.strerror}") from error


def _last_entry(path: str, base_offset: int) -> Largest | None:
    """Returns the last entry before preallocated zeros; None if there is none."""
    try:
        status = trees.status(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: not a regular file")
    if status.st_size > LARGEST_BYTES:
        raise KsegError(f"{path}: {status.st_size} bytes are too many for a time index; rebuild it with kseg reindex")
    with open_source(path) as source:
        index = TimeIndex(source.buffer, base_offset)
        return Largest(*index[len(index) - 1]) if len(index) else None
