"""Differences between Kafka releases in log compaction.

Source: LogCleaner, Cleaner and LogCleanerManager of 2.3 to 4.3.
"""

from dataclasses import dataclass

from kseg.releases.release import Release

OLDEST = (2, 3)
"""The first release whose rules are known."""


@dataclass(frozen=True, slots=True)
class CleanerRules(Release):
    """Raises ValueError for a release older than `OLDEST`."""

    def __post_init__(self) -> None:
        if self.release < OLDEST:
            raise ValueError(f"the rules of the cleaner are known from {'.'.join(map(str, OLDEST))} on")

    @property
    def keeps_log_end(self) -> bool:
        """The last batch below the cleanable end is kept as an empty batch if all its records are removed."""
        return self.release >= (4, 1)

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
