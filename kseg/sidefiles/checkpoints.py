"""The checkpoints of a log directory: one offset a partition (OffsetCheckpointFile).

    recovery-point-offset-checkpoint   the first offset that is not known to be flushed
    replication-offset-checkpoint      the high watermark
    log-start-offset-checkpoint        the log start offset, where it is not the base of the first segment
    cleaner-offset-checkpoint          the first offset that the log cleaner has not cleaned

Brokers write the entries in no order that means anything.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kseg.sidefiles.checkpoint_file import build_checkpoint_file, read_checkpoint_file
from kseg.sidefiles.lines import integer
from kseg.sidefiles.problems import SideFileProblem

OFFSET_CHECKPOINTS = {
    "recovery-point-offset-checkpoint": "recoveryPoint",
    "replication-offset-checkpoint": "highWatermark",
    "log-start-offset-checkpoint": "logStartOffset",
    "cleaner-offset-checkpoint": "cleanerCheckpoint",
}
"""Name of each file, and of its entries in JSON."""


class OffsetCheckpoint(NamedTuple):
    """One line: the offset of a partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(buffer: Any) -> Iterator[OffsetCheckpoint | SideFileProblem]:
    """Entries and problems of any of OFFSET_CHECKPOINTS."""
    return read_checkpoint_file(buffer, _parse)


def _parse(fields: list[str]) -> OffsetCheckpoint | None:
    if len(fields) != 3:
        return None
    partition, offset = integer(fields[1], 32), integer(fields[2], 64)
    return None if partition is None or offset is None else OffsetCheckpoint(fields[0], partition, offset)


def build_offset_checkpoint(entries: Iterable[OffsetCheckpoint]) -> bytes:
    """The bytes of such a file, entries in the order given."""
    return build_checkpoint_file(entries)
