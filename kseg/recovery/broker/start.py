"""The input of a partition's load, and the ranges that it removes."""

from dataclasses import dataclass, field

from kseg.recovery.broker.losses import Loss
from kseg.recovery.deleted_segments import DeletedSegments
from kseg.recovery.topic_ids import TopicIds
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


@dataclass(slots=True)
class Cut:
    """``length`` bytes removed at the end of ``file``, from ``position`` on. ``next_offset``: the log end afterwards;
    ``dropped``: the .log files of later segments, which are deleted; ``loss``: the intact batches in all of these."""

    file: str
    position: int
    length: int
    next_offset: int
    dropped: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)
