"""What differs between releases of Kafka in which segments retention deletes, and what it leaves of them.

Read in the sources of the releases: LogManager and Log of 0.7 to 2.8, UnifiedLog and LocalLog since.
"""

from dataclasses import dataclass

LOG_START, SIZE, TIME = "log start", "size", "time"
"""The rules, by what a segment has to be to go: below the log start offset, too much, or too old."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Of a release by its first numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = (4, 3)

    @property
    def order(self) -> tuple[str, ...]:
        """In which the rules are applied, each to what the one before has left."""
        if self.release >= (3, 0):
            return LOG_START, SIZE, TIME
        return (TIME, SIZE, LOG_START) if self.has_log_start else (TIME, SIZE)

    @property
    def is_07(self) -> bool:
        """.kafka segments named by byte positions, and nothing beside them."""
        return self.release < (0, 8)

    @property
    def has_time_index(self) -> bool:
        """A segment is as old as its newest record, as the time index knows it; before, as its file (KIP-33)."""
        return self.release >= (0, 10, 1)

    @property
    def has_log_start(self) -> bool:
        """DeleteRecords, its checkpoint, the limit of the high watermark, leader epochs, producer snapshots."""
        return self.release >= (0, 11)

    @property
    def starts_compacted_logs(self) -> bool:
        """What lies below the log start goes from logs that are compacted only, too (KAFKA-7321)."""
        return self.release >= (2, 1)

    @property
    def renames(self) -> bool:
        """Files become .deleted first; before, they were removed at once."""
        return self.release >= (0, 8, 1)

    @property
    def has_snapshot_of_each(self) -> bool:
        """A segment's producer snapshot goes with it; before, all that lay below the log start went at once."""
        return self.release >= (2, 8)

    @property
    def renames_snapshots(self) -> bool:
        """As the other files of the segment; 2.8 removed it under its own name, when the time of these was over."""
        return self.release >= (3, 0)
