"""What a broker's start knows before it looks into a partition, and what it takes away."""

from dataclasses import dataclass, field

from kseg.recovery.broker.losses import Loss
from kseg.recovery.topic_ids import TopicIds
from kseg.releases.recovery import Era

EPOCHS_KEPT, EPOCHS_MENDED, EPOCHS_REBUILT = 0, 1, 2
"""Whether leader epochs are made anew from the batches: never; where the file is missing or cannot be read; always."""


@dataclass(frozen=True, slots=True)
class Start:
    """``interval_bytes``: index.interval.bytes, None for what the indexes show (`kseg.recovery.broker.intervals`);
    ``interval_source``: who says so, "" for the caller; ``jobs``: threads that read a large segment; ``epochs``:
    EPOCHS_KEPT, EPOCHS_MENDED or EPOCHS_REBUILT; ``topic_ids``: those of the log directory, None where
    partition.metadata is to be left alone."""

    was_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    now_ms: int = 0
    interval_bytes: int | None = None
    interval_source: str = ""
    era: Era = field(default_factory=Era)
    jobs: int = 1
    epochs: int = EPOCHS_KEPT
    topic_ids: TopicIds | None = None


@dataclass(slots=True)
class Cut:
    """What recovery takes away: bytes of ``file`` from ``position`` on, and whole later segments."""

    file: str
    position: int
    length: int
    next_offset: int
    dropped: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)
