"""Releases of Kafka, and the differences between them that concern all commands."""

from dataclasses import dataclass

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    (4, 0), (4, 1), (4, 2), (4, 2, 2), (4, 3), (4, 4),
)  # fmt: skip
"""Version numbers, as far as rules differ. Bug-fix releases of one line share their rules up to the next one listed."""

NEWEST = RELEASES[-1]


@dataclass(frozen=True, slots=True)
class Release:
    """The rules of a release, given by its version numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = NEWEST

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    def has(self, since: tuple[int, ...], *backports: tuple[int, ...]) -> bool:
        """Whether the release has a rule that began with ``since``; ``backports``: the first bug-fix releases of
        older lines, from 1.0 on, that have it too."""
        return self.release >= since or any(self.release[:2] == each[:2] and self.release >= each for each in backports)

    @property
    def is_07(self) -> bool:
        """Segments are .kafka files, named by byte position, without other files."""
        return self.release < (0, 8)

    @property
    def has_time_index(self) -> bool:
        """Segments have time indexes (KIP-33)."""
        return self.release >= (0, 10, 1)


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

    @property
    def has_log_start(self) -> bool:
        """DeleteRecords and its checkpoint, the high watermark as a limit, leader epochs and producer snapshots
        exist."""
        return self.release >= (0, 11)

    @property
    def starts_compacted_logs(self) -> bool:
        """Segments below the log start are deleted with cleanup.policy=compact too (KAFKA-7321)."""
        return self.release >= (2, 1)

    @property
    def renames(self) -> bool:
        """Files are renamed to .deleted first; before, they were removed at once."""
        return self.release >= (0, 8, 1)

    @property
    def has_snapshot_of_each_segment(self) -> bool:
        """A segment's producer snapshot is deleted with it; before, all below the log start were deleted at once."""
        return self.release >= (2, 8)

    @property
    def renames_snapshots(self) -> bool:
        """Snapshots are renamed as the segment's other files; 2.8 removed them unrenamed, after the delete delay."""
        return self.release >= (3, 0)


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

    @property
    def limits_records(self) -> bool:
        """A compressed record above max.decompressed.message.bytes makes the partition uncleanable."""
        return self.has((4, 4), (4, 2, 2))

    @property
    def keeps_format(self) -> bool:
        """Messages v0 and v1 keep their format; later they become v2 batches (KIP-724)."""
        return self.release < (4, 0)

    @property
    def has_horizons(self) -> bool:
        """Tombstones and markers get a delete horizon (KIP-534); before, the file's modification time decides."""
        return self.release >= (3, 1)

    @property
    def heeds_high_watermark(self) -> bool:
        """The high watermark bounds cleaning too; before, only open transactions did."""
        return self.release >= (3, 1)
