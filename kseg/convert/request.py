"""What a conversion of segments is asked for, and the errors that say why one is not done."""

from dataclasses import dataclass

from kseg.errors import KsegError
from kseg.formats.compressing import Target
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES


@dataclass(frozen=True, slots=True)
class Request:
    """``magic`` and ``target``: None keeps those of each batch. ``has_level``: the codec came with a level, so that
    batches of the same codec are compressed anew.

    ``batch_bytes``: records are put together, or apart, to batches of at most so many bytes before compression; None
    keeps the batches. ``segment_bytes``: None keeps the segments. ``committed_only``: as a read_committed consumer
    sees the log. ``base_offset`` is that of the first message of a 0.7 log, whose byte positions become a header of
    the name ``position_header``.
    """

    magic: int | None = None
    target: Target | None = None
    has_level: bool = False
    batch_bytes: int | None = None
    segment_bytes: int | None = None
    committed_only: bool = False
    is_lossy: bool = False
    skips_damage: bool = False
    base_offset: int = 0
    position_header: bytes | None = None
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int = 1


class LossError(KsegError):
    """The format asked for cannot hold something of the log."""


class DamagedError(KsegError):
    """The log is damaged, and it was not asked to go on behind that."""
