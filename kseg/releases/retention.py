"""Differences between Kafka releases: which segments retention deletes, and what remains of them.

Source: LogManager and Log of 0.7 to 2.8, UnifiedLog and LocalLog since.
"""

from dataclasses import dataclass

from kseg.releases.release import Release

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
