"""Updates log-start-offset-checkpoint after retention (LogManager.checkpointLogStartOffsetsInDir).

The file lists a partition only if its log start is above its first segment's base offset. It is the only record of
deletions in the middle of a segment.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kseg.changes.root_files import TopicPartition
from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint


class LogStart(NamedTuple):
    """The log start offset of a partition, and the base offset of its first segment."""

    offset: int
    first_base: int


def with_log_starts(entries: Iterable[OffsetCheckpoint], starts: Mapping[TopicPartition, LogStart]) -> bytes | None:
    """Returns the new contents of the file with these entries; None if nothing changes."""
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
