"""``.timeindex``: maps timestamps to offsets (Kafka's TimeIndex; since 0.10.1).

    0   timestamp        int64   ms
    8   relativeOffset   int32   offset - base offset of the segment

No record of the segment up to that offset has a larger timestamp than the entry.
"""

import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Sliceable
from kseg.sidefiles.entries import EntryFile
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores import trees
from kseg.stores.source import open_source

_LARGEST_BYTES = (1 << 31) - 1
"""Largest size of an index; brokers map it with an int size."""


class TimeIndexEntry(NamedTuple):
    """``timestamp`` in ms since the epoch; ``offset`` is absolute."""

    timestamp: int
    offset: int


class TimeIndex(EntryFile[TimeIndexEntry]):
    """The entries of a .timeindex file."""

    LAYOUT = struct.Struct(">qi")

    def _entry(self, fields: tuple[int, ...]) -> TimeIndexEntry:
        return TimeIndexEntry(fields[0], self.base_offset + fields[1])

    def _problem(self, entry: TimeIndexEntry, before: TimeIndexEntry | None) -> tuple[str, str] | None:
        if entry.offset < self.base_offset:
            return "offset-below-base", f"offset {entry.offset} is below the base offset {self.base_offset}"
        if before and (entry.timestamp <= before.timestamp or entry.offset < before.offset):
            message = f"timestamp {entry.timestamp} of offset {entry.offset} follows {before.timestamp} of"
            return "unsorted", f"{message} {before.offset}"
        return None

    def _count_used(self, end: int) -> int:
        # A single entry of zeros may be real: timestamp 0 at the base offset. Zeros in a larger file are unused.
        return super()._count_used(end) or int(self.capacity == 1)

    def lookup(self, timestamp: int) -> TimeIndexEntry:
        """Returns the last entry in use with a timestamp of at most ``timestamp``, or (-1, base offset)."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle].timestamp <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self[low - 1] if low else TimeIndexEntry(-1, self.base_offset)

    def sanity_problem(self) -> str | None:
        """Why TimeIndex.sanityCheck of 4.3.1 rejects the file, None if it accepts it. It rejects most trailing
        zeros."""
        if self.capacity:
            first, last = self[0], self[self.capacity - 1]
            if last.timestamp < first.timestamp:
                return f"the last timestamp {last.timestamp} is below the first, {first.timestamp}"
            if last.offset < self.base_offset:
                return f"the last offset {last.offset} is below the base offset {self.base_offset}"
        if self.size % self.LAYOUT.size:
            return f"{self.size} bytes are no multiple of {self.LAYOUT.size}"
        return None


def read_time_index(buffer: Sliceable, base_offset: int = 0) -> Iterator[TimeIndexEntry | SideFileProblem]:
    """Yields the entries and problems of a .timeindex file; ``base_offset`` is the number in its name."""
    return TimeIndex(buffer, base_offset).items()


def last_time_entry(path: str, base_offset: int) -> TimeIndexEntry | None:
    """Returns the last entry of a file before preallocated zeros; None if there is none. Raises KsegError."""
    try:
        status = trees.status(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: not a regular file")
    if status.st_size > _LARGEST_BYTES:
        raise KsegError(f"{path}: {status.st_size} bytes are too many for a time index; rebuild it with kseg reindex")
    with open_source(path) as source:
        index = TimeIndex(source.buffer, base_offset)
        return index[len(index) - 1] if len(index) else None
