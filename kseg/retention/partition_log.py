"""The state of a partition's log that retention needs: segments, sizes, ages and log end offset."""

from dataclasses import dataclass
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG, LOG_07, SWAP, TIME_INDEX
from kseg.releases.retention import RetentionRules
from kseg.segment.files import LAST_OFFSET, SegmentFile, file_names, list_segments, segment_stem
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import offset_extent, seek_offset
from kseg.sidefiles.time_index import last_time_entry
from kseg.stores import trees
from kseg.stores.source import open_source

# Determines the timestamp that decides a segment's age: LogSegment.largestTimestamp.
#
# A broker does not search for the newest record. After loading a segment it uses the last entry of the time index. If
# there is no entry, or the release has no time index, it uses the modification time of the .log.


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


class RetentionSegment(NamedTuple):
    """``stem``: the name without suffix; ``size`` of the .log or .kafka file in bytes."""

    file: SegmentFile
    base_offset: int
    size: int
    largest: Largest

    @property
    def stem(self) -> str:
        return self.file.name.removesuffix(self.file.kind)


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """``names``: all files. ``damaged_at``: position of the first damage in the last segment after its last index
    entry; None if there is none."""

    directory: str
    names: frozenset[str]
    segments: tuple[RetentionSegment, ...]
    end_offset: int
    damaged_at: int | None = None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


def read_log(directory: str, rules: RetentionRules) -> PartitionLog:
    """Reads the log. Raises KsegError if it has no segments of the release, or segments on which no broker starts."""
    kind = LOG_07 if rules.is_07 else LOG
    names = frozenset(file_names(directory))
    if swaps := sorted(name for name in names if name.endswith(SWAP)):
        raise KsegError(
            f"{directory}/{swaps[0]}: an unfinished cleaning, completed by a broker at start: run kseg recover first"
        )
    files = [file for file in list_segments(directory) if file.kind == kind]
    if not files:
        other = LOG if rules.is_07 else LOG_07
        hint = "; --era 0.7 is for these" if any(name.endswith(LOG_07) for name in names) else ""
        there = f", only {other} files{hint}" if any(name.endswith(other) for name in names) else ""
        raise PathError(f"{directory}: no {kind} files{there}")
    found = [_segment(file, rules) for file in files]
    last = found[-1]
    end, damaged_at = _end(last, rules)
    return PartitionLog(directory, names, tuple(found), end, damaged_at)


def _segment(file: SegmentFile, rules: RetentionRules) -> RetentionSegment:
    base = file.base_offset
    if base is None or file.name != segment_stem(base) + file.kind:
        raise KsegError(f"{file.path}: not a segment name that brokers use; rename the file")
    try:
        size = trees.status(file.path).st_size
    except OSError as error:
        raise PathError(f"{file.path}: {error.strerror}") from error
    return RetentionSegment(file, base, size, largest_timestamp(file.path, base, rules.has_time_index))


def _end(last: RetentionSegment, rules: RetentionRules) -> tuple[int, int | None]:
    """Returns the offset after the last intact batch, and the position of damage after the last index entry."""
    if rules.is_07:
        return last.base_offset + last.size, None
    with open_source(last.file.path) as source:
        reader = SegmentReader(source, base_offset=last.base_offset, scratch=Scratch())
        extent = offset_extent(reader, last.file)
        reader.begin_at(seek_offset(reader, last.file, LAST_OFFSET).position)
        bad = next((item.position for item in reader if isinstance(item, Damage) or not item.is_valid), None)
    return last.base_offset if extent is None else extent[1] + 1, bad
