"""The offset checkpoints of a log directory: one offset per partition (OffsetCheckpointFile).

    recovery-point-offset-checkpoint   the first offset that is not known to be flushed
    replication-offset-checkpoint      the high watermark
    log-start-offset-checkpoint        the log start offset, if it differs from the first segment's base offset
    cleaner-offset-checkpoint          the first offset that the log cleaner has not cleaned

The order of the entries has no meaning.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kseg.formats.byte_types import Sliceable
from kseg.sidefiles.checkpoint_file import build_checkpoint_file, read_checkpoint_file
from kseg.sidefiles.lines import integer
from kseg.sidefiles.problems import SideFileProblem

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = {
    RECOVERY_POINTS: "recoveryPoint",
    HIGH_WATERMARKS: "highWatermark",
    LOG_STARTS: "logStartOffset",
    CLEANER_OFFSETS: "cleanerCheckpoint",
}
"""File name to the JSON name of its entries."""


class OffsetCheckpoint(NamedTuple):
    """One line: the offset of one partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(buffer: Sliceable) -> Iterator[OffsetCheckpoint | SideFileProblem]:
    """Yields the entries and problems of one of the OFFSET_CHECKPOINTS files."""
    return read_checkpoint_file(buffer, _parse)


def _parse(fields: list[str]) -> OffsetCheckpoint | None:
    if len(fields) != 3:
        return None
    partition, offset = integer(fields[1], 32), integer(fields[2], 64)
    return None if partition is None or offset is None else OffsetCheckpoint(fields[0], partition, offset)


def build_offset_checkpoint(entries: Iterable[OffsetCheckpoint]) -> bytes:
    """Returns the bytes of an offset checkpoint, with the entries in the given order."""
    return build_checkpoint_file(entries)
