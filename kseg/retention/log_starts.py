"""log-start-offset-checkpoint after retention: LogManager.checkpointLogStartOffsetsInDir.

It lists a partition only where its log starts above the base offset of its first segment: the one place that remembers
records which were deleted in the middle of a segment.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint

LOG_STARTS = "log-start-offset-checkpoint"

Partition = tuple[str, int]


class LogStart(NamedTuple):
    """Where the log of a partition starts, and the base offset of its first segment."""

    offset: int
    first_base: int


def with_log_starts(entries: Iterable[OffsetCheckpoint], starts: Mapping[Partition, LogStart]) -> bytes | None:
    """The new content of the file with these entries; None where nothing is to change."""
    old = list(entries)
    new = {(entry.topic, entry.partition): entry.offset for entry in old}
    for partition, start in starts.items():
        if start.offset > start.first_base:
            new[partition] = start.offset
        elif new.get(partition, start.first_base + 1) <= start.first_base:
            del new[partition]
    if new == {(entry.topic, entry.partition): entry.offset for entry in old}:
        return None
    return build_offset_checkpoint(OffsetCheckpoint(*partition, offset) for partition, offset in new.items())
