"""What a broker's start knows before it looks into a partition, and what it takes away."""

from dataclasses import dataclass, field

from kseg.recovery.eras import Era
from kseg.recovery.losses import Loss


@dataclass(frozen=True, slots=True)
class Start:
    """``interval_bytes``: index.interval.bytes, None for what the indexes show (`kseg.recovery.intervals`)."""

    was_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    now_ms: int = 0
    interval_bytes: int | None = None
    era: Era = field(default_factory=Era)


@dataclass(slots=True)
class Cut:
    """What recovery takes away: bytes of ``file`` from ``position`` on, and whole later segments."""

    file: str
    position: int
    length: int
    next_offset: int
    dropped: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)
