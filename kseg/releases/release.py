"""Releases of Kafka, and the differences between them that concern all commands."""

from dataclasses import dataclass

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    (4, 0), (4, 1), (4, 2), (4, 2, 2), (4, 3), (4, 4),
)  # fmt: skip
"""Version numbers, as far as rules differ. Bug-fix releases of one line share their rules up to the next one listed."""

NEWEST = RELEASES[-1]


class ReleaseRule:
    """Whether the rules of a release include one: from ``since`` on, before ``until``. ``backports``: the first bug-fix
    releases of older lines, from 1.0 on, that have it too."""

    def __init__(
        self,
        since: tuple[int, ...] = (0,),
        until: tuple[int, ...] = (1 << 31,),
        backports: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self._since, self._until, self._backports = since, until, backports

    def __get__(self, rules: "Release", _owner: object = None) -> bool:
        release = rules.release
        is_backported = any(release[:2] == each[:2] and release >= each for each in self._backports)
        return self._since <= release < self._until or is_backported


@dataclass(frozen=True, slots=True)
class Release:
    """The rules of a release, given by its version numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = NEWEST

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    is_07 = ReleaseRule(until=(0, 8))
    """Segments are .kafka files, named by byte position, without other files."""
    has_time_index = ReleaseRule(since=(0, 10, 1))
    """Segments have time indexes (KIP-33)."""


# Differences between Kafka releases: which segments retention deletes, and what remains of them.
#
# Source: LogManager and Log of 0.7 to 2.8, UnifiedLog and LocalLog since.

LOG_START, SIZE, TIME = "log start", "size", "time"
"""The rules: the segment is below the log start offset, the log is too large, the segment is too old."""


@dataclass(frozen=True, slots=True)
class RetentionRules(Release):
    """``has_time_index``: a segment's age is that of its last time index entry; before, its modification time."""

    @property
    def order(self) -> tuple[str, ...]:
        """The order of the rules; each sees the segments that the previous one kept."""
        if self.release >= (3, 0):
            return LOG_START, SIZE, TIME
        return (TIME, SIZE, LOG_START) if self.has_log_start else (TIME, SIZE)

    has_log_start = ReleaseRule(since=(0, 11))
    """DeleteRecords and its checkpoint, the high watermark as a limit, leader epochs and producer snapshots
    exist."""
    starts_compacted_logs = ReleaseRule(since=(2, 1))
    """Segments below the log start are deleted with cleanup.policy=compact too (KAFKA-7321)."""
    renames = ReleaseRule(since=(0, 8, 1))
    """Files are renamed to .deleted first; before, they were removed at once."""
    has_snapshot_of_each_segment = ReleaseRule(since=(2, 8))
    """A segment's producer snapshot is deleted with it; before, all below the log start were deleted at once."""
    renames_snapshots = ReleaseRule(since=(3, 0))
    """Snapshots are renamed as the segment's other files; 2.8 removed them unrenamed, after the delete delay."""


# Differences between Kafka releases in log compaction.
#
# Source: LogCleaner, Cleaner and LogCleanerManager of 2.3 to 4.4.

OLDEST = (2, 3)
"""The first release whose rules are known."""

NO_END, RANGE_END, HIGH_WATERMARK = 0, 1, 2
"""The offset whose batch is kept as an empty one if it loses its records: none, the last one below the cleanable end,
or the last one below the high watermark."""


@dataclass(frozen=True, slots=True)
class CleanerRules(Release):
    """Raises ValueError for a release older than `OLDEST`."""

    def __post_init__(self) -> None:
        if self.release < OLDEST:
            raise ValueError(f"the rules of the cleaner are known from {'.'.join(map(str, OLDEST))} on")

    @property
    def kept_end(self) -> int:
        """NO_END, RANGE_END or HIGH_WATERMARK."""
        if self.release < (4, 0):
            return NO_END
        return RANGE_END if self.release < (4, 4) else HIGH_WATERMARK

    limits_records = ReleaseRule(since=(4, 4), backports=((4, 2, 2),))
    """A compressed record above max.decompressed.message.bytes makes the partition uncleanable."""
    keeps_format = ReleaseRule(until=(4, 0))
    """Messages v0 and v1 keep their format; later they become v2 batches (KIP-724)."""
    has_horizons = ReleaseRule(since=(3, 1))
    """Tombstones and markers get a delete horizon (KIP-534); before, the file's modification time decides."""
    heeds_high_watermark = ReleaseRule(since=(3, 1))
    """The high watermark bounds cleaning too; before, only open transactions did."""
