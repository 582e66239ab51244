"""The request of a conversion, and the error for information that its target format cannot hold."""

from dataclasses import dataclass

from kseg.errors import KsegError
from kseg.formats.compressing import Target
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES


@dataclass(frozen=True, slots=True)
class ConversionRequest:
    """The options. ``magic`` and ``target``: None keeps those of each batch.

    ``has_level``: a compression level was given, so that batches with the same codec are recompressed, too.
    ``batch_bytes``: records are regrouped to batches of at most this size before compression; None keeps the batches.
    ``segment_bytes``: None keeps the segments. ``committed_only``: only records that a read_committed consumer sees.
    ``base_offset``: the offset of the first message of a 0.7 log, whose byte positions become a header named
    ``position_header``.
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
    """The target format cannot represent some information of the log."""
