"""A partition's segments during cleaning: existing ones, and new ones that are not yet in the partition; their
groups."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from kseg.cleaner.settings import CleanerSettings
from kseg.errors import UnsupportedError, errors_at
from kseg.formats.suffixes import INDEX, LEFTOVER_SUFFIXES, LOG, SEGMENT_SUFFIXES, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.layout.headers import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.logdir.topics import topic_of_place
from kseg.segment.files import METADATA_TOPIC, file_names, segments_among
from kseg.segment.writer import LARGEST_DELTA
from kseg.sidefiles.indexes import AbortedTxn, TransactionIndex, last_time_entry
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores import trees
from kseg.stores.regular_files import read_regular


@dataclass(slots=True)
class CleanerSegment:
    """``paths`` and ``sizes`` (in bytes) of the segment's files, by suffix."""

    base_offset: int
    mtime_ns: int
    paths: dict[str, str]
    sizes: dict[str, int] = field(default_factory=dict)
    _aborted: list[AbortedTxn] | None = None

    @property
    def path(self) -> str:
        return self.paths[LOG]

    @property
    def size(self) -> int:
        return self.sizes[LOG]

    @property
    def mtime_ms(self) -> int:
        return self.mtime_ns // 1_000_000

    def side_bytes(self, suffix: str) -> int:
        return self.sizes.get(suffix, 0)

    def largest_timestamp(self) -> int:
        """In ms: the timestamp of the last time index entry, else the modification time of the .log (LogSegment)."""
        path = self.paths.get(TIME_INDEX)
        entry = None if path is None else last_time_entry(path, self.base_offset)
        return self.mtime_ms if entry is None or entry.timestamp < 0 else entry.timestamp

    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions, read once: the file may have been replaced later.

        Raises UnsupportedError if the transaction index is unreadable.
        """
        if self._aborted is None:
            self._aborted = self._read_aborted()
        return self._aborted

    def _read_aborted(self) -> list[AbortedTxn]:
        path = self.paths.get(TRANSACTION_INDEX)
        if path is None:
            return []
        found = []
        for item in TransactionIndex(_content(path), self.base_offset).items():
            if isinstance(item, SideFileProblem):
                raise UnsupportedError(f"{path}: {item.message}; rebuild it with kseg reindex")
            found.append(item)
        return found


def _content(path: str) -> bytes:
    with errors_at(path):
        return read_regular(path, MAX_ROOT_FILE_BYTES)


def read_segments(directory: str) -> list[CleanerSegment]:
    """Returns the segments of a partition by base offset.

    Raises UnsupportedError for logs that cannot be cleaned: segments of 0.7, the cluster metadata log, and a log with
    files of an interrupted operation.
    """
    if topic_of_place(directory) == METADATA_TOPIC:
        raise UnsupportedError(f"{directory}: the cluster metadata log is never compacted; it uses snapshots instead")
    names = file_names(directory)
    left = [name for name in names if name.endswith(LEFTOVER_SUFFIXES[1:])]
    if left:
        raise UnsupportedError(f"{directory}: {min(left)} was left by an interrupted operation: run kseg recover first")
    found = []
    for file in segments_among(directory, names):
        if file.is_07:
            raise UnsupportedError(f"{file.path}: segments of 0.7 have no keys")
        if file.kind != LOG or file.base_offset is None:
            continue
        stem = file.path.removesuffix(LOG)
        paths = {suffix: stem + suffix for suffix in SEGMENT_SUFFIXES if trees.lexists(stem + suffix)}
        with errors_at(file.path):
            sizes = {suffix: trees.status(path, follow_symlinks=False).st_size for suffix, path in paths.items()}
            found.append(CleanerSegment(file.base_offset, trees.status(file.path).st_mtime_ns, paths, sizes))
    return found


def segments_between(segments: Sequence[CleanerSegment], start: int, end: int) -> list[CleanerSegment]:
    """Returns the segments that may hold offsets of ``start`` and above, and begin below ``end``
    (LogSegments.values)."""
    if start >= end:
        return []
    first = max(bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1, 0)
    return [segment for segment in segments[first:] if segment.base_offset < end]


def aborted_between(segments: Sequence[CleanerSegment], start: int, upper: int) -> list[AbortedTxn]:
    """Returns the aborted transactions with offsets in [start, upper) (UnifiedLog.collectAbortedTransactions)."""
    found = []
    for segment in segments_between(segments, start, 1 << 63):
        for entry in segment.aborted():
            if entry.last_offset >= start and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return found
    return found


def group_segments(
    segments: Sequence[CleanerSegment], end: int, settings: CleanerSettings
) -> list[list[CleanerSegment]]:
    """Groups adjacent segments, oldest first, as long as they fit in one (Cleaner.groupSegmentsBySize).

    ``end`` is the end of the dirty range.
    """
    groups: list[list[CleanerSegment]] = []
    for i, segment in enumerate(segments):
        last_offset = (segments[i + 1].base_offset if i + 1 < len(segments) else end) - 1
        if groups and _fits(groups[-1], segment, last_offset, settings):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: Sequence[CleanerSegment], segment: CleanerSegment, last_offset: int, settings: CleanerSettings
) -> bool:
    together = [*group, segment]
    return (
        sum(part.size for part in together) <= settings.segment_bytes
        and _entry_bytes(together, INDEX, OFFSET_ENTRY_BYTES) <= settings.index_bytes
        and _entry_bytes(together, TIME_INDEX, TIME_ENTRY_BYTES) <= settings.index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= LARGEST_DELTA)
    )


def _entry_bytes(group: Sequence[CleanerSegment], suffix: str, width: int) -> int:
    """Returns the size of all whole entries, of ``width`` bytes each, in an index of the segments."""
    return sum(part.side_bytes(suffix) // width * width for part in group)
