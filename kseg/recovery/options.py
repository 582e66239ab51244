"""The options of recovery and reindexing as typed objects."""

from dataclasses import dataclass, field

from kseg.logdir.server_properties import ServerProperties
from kseg.releases.recovery import Era

BROKER, SALVAGE = "broker", "salvage"


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """The options of `kseg recover`; None for an option that is not given.

    ``from_replica``: another replica of the partition, or its log directory; ``drops_undecodable``, ``drop_batches``:
    batches that a salvage removes; ``scans_all``: segments below the recovery point are scanned as well; ``era``: the
    release of Kafka whose rules apply; ``interval_bytes``: index.interval.bytes; ``jobs``: threads that read a file.
    ``undeletes``: deleted segments and directories are restored; ``topics``: globs, of a log directory only such
    partitions; ``name``: the topic's new name; ``new_cluster``: a log directory of the cluster that will serve the
    partitions; ``resets_epochs``: the leader epochs of all batches become 0.
    """

    mode: str = BROKER
    from_replica: str | None = None
    drops_undecodable: bool = False
    drop_batches: frozenset[int] = frozenset()
    scans_all: bool = False
    rebuilds_epochs: bool = False
    topic_id: str | None = None
    era: Era = field(default_factory=Era)
    interval_bytes: int | None = None
    now_ms: int | None = None
    jobs: int | None = None
    server: ServerProperties | None = None
    undeletes: bool = False
    topics: tuple[str, ...] = ()
    name: str | None = None
    new_cluster: str | None = None
    resets_epochs: bool = False

    @property
    def is_salvage(self) -> bool:
        return self.mode == SALVAGE


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """The options of `kseg reindex`. ``with_snapshots``: producer snapshots are rebuilt as well."""

    with_snapshots: bool = False
    era: Era = field(default_factory=Era)
    interval_bytes: int | None = None
    jobs: int | None = None
    topics: tuple[str, ...] = ()
    """Globs: of a log directory only partitions of such topics."""
