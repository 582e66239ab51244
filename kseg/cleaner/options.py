"""The options of compaction as one typed object."""

from dataclasses import dataclass, field

from kseg.logdir.server_properties import ServerProperties
from kseg.releases.recovery import Era


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The options of `kseg compact`; times in ms, sizes in bytes, None for an option that is not given.

    The first seven replace settings of topics. ``memory_bytes``: size of the offset map; ``forces_policy``: topics
    without compact in their cleanup.policy are compacted as well; ``era``: the release of Kafka whose rules apply.
    """

    min_lag_ms: int | None = None
    max_lag_ms: int | None = None
    delete_retention_ms: int | None = None
    min_ratio: float | None = None
    segment_bytes: int | None = None
    index_bytes: int | None = None
    interval_bytes: int | None = None
    memory_bytes: int | None = None
    now_ms: int | None = None
    until_clean: bool = False
    includes_active: bool = False
    keeps_format: bool = False
    drops_null_keys: bool = False
    forces_policy: bool = False
    topics: tuple[str, ...] = ()
    jobs: int | None = None
    era: Era = field(default_factory=Era)
    server: ServerProperties | None = None
