"""The options of recovery and reindexing, and what is known of a partition when its load starts."""

from dataclasses import dataclass, field

from kseg.logdir.server_properties import ServerProperties
from kseg.recovery.deleted_segments import DeletedSegments
from kseg.recovery.destination import TopicIds
from kseg.recovery.workspace import Workspace
from kseg.releases.recovery import Era

EPOCHS_KEPT, EPOCHS_REPAIRED, EPOCHS_REBUILT = 0, 1, 2
"""Whether leader epochs are rebuilt from the batches: never; if the file is missing or unreadable; always."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """``interval_bytes``: index.interval.bytes, None to infer it from the indexes (`kseg.logdir.index_interval`);
    ``interval_source``: its source, "" for the caller; ``jobs``: threads that read a large segment; ``epochs``:
    EPOCHS_KEPT, EPOCHS_REPAIRED or EPOCHS_REBUILT; ``topic_ids``: those of the log directory, None to leave
    partition.metadata unchanged; ``name``: that of the directory afterwards, "" if it stays; ``deleted``: segments to
    restore; ``resets_epochs``: the leader epochs of all batches become 0."""

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
    name: str = ""
    deleted: DeletedSegments | None = None
    resets_epochs: bool = False

    def workspace(self, directory: str) -> Workspace:
        """Returns the workspace of a partition, with restored segments. Raises PathError."""
        workspace = Workspace(directory, self.jobs)
        if self.deleted is not None:
            self.deleted.restore(workspace)
        return workspace


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
