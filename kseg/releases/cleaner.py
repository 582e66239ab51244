"""Differences between Kafka releases in log compaction.

Source: LogCleaner, Cleaner and LogCleanerManager of 2.3 to 4.4.
"""

from dataclasses import dataclass

from kseg.releases.release import Release

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
