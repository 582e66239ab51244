"""The options of recovery and reindexing, and what is known of a partition when its load starts."""

import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kseg.logdir.server_properties import ServerProperties
from kseg.options import values
from kseg.options.declaration import CONTENTS, INPUT, RULES, Number, PathKind, Value, option
from kseg.options.values import BYTES
from kseg.recovery.deleted_segments import DeletedSegments
from kseg.recovery.destination import TopicIds
from kseg.recovery.workspace import Workspace
from kseg.releases.recovery import DEFAULT_MESSAGE_LIMIT_BYTES, Era
from kseg.segment.files import ZERO_UUID_TEXT, is_uuid


class Listener(NamedTuple):
    """``NAME://HOST:PORT`` of a controller."""

    name: str
    host: str
    port: int

    @classmethod
    def parsed(cls, text: str) -> "Listener":
        """Raises ValueError."""
        found = re.fullmatch(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{1,255}):([0-9]{1,5})", text)
        if found is None or not 0 < int(found[3]) < 65536:
            raise ValueError(f"{text!r} is no listener of the form NAME://HOST:PORT")
        return cls(found[1], found[2].strip("[]"), int(found[3]))

    @property
    def address(self) -> str:
        """HOST:PORT as settings of Kafka have it: an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


EPOCHS_KEPT, EPOCHS_REPAIRED, EPOCHS_REBUILT = 0, 1, 2
"""Whether leader epochs are rebuilt from the batches: never; if the file is missing or unreadable; always."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """``interval_bytes``: index.interval.bytes, None to infer it from the indexes (`kseg.logdir.topics`);
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


def _topic_id(text: str) -> str:
    if not is_uuid(text) or text == ZERO_UUID_TEXT:
        raise ValueError(f"{text!r} is not a topic id: 22 characters of base64url, as kafka-topics.sh shows it")
    return text


@dataclass(frozen=True, slots=True)
class RecoverOptions:
    """The options of `kseg recover`; None for an option that is not given.

    ``from_replica``: another replica of the partition, or its log directory; ``drops_undecodable``, ``drop_batches``:
    batches that a salvage removes; ``scans_all``: segments below the recovery point are scanned as well; ``era``: the
    release of Kafka whose rules apply; ``interval_bytes``: index.interval.bytes; ``jobs``: threads that read a file.
    ``undeletes``: deleted segments and directories are restored; ``topics``: globs, of a log directory only such
    partitions; ``name``: the topic's new name; ``new_cluster``: a log directory of the cluster that will serve the
    partitions; ``resets_epochs``: the leader epochs of all batches become 0. ``carves``: the paths are images;
    ``likes``: log directories that hold a part of the logs in them. ``metadata_snapshot``, ``new_quorum``,
    ``topics_from``: see `kseg.recovery.metadata_log`.
    """

    mode: str = option(
        "--mode",
        RULES,
        "broker: as a broker's start after an unclean shutdown; salvage: remove only damaged bytes.",
        (BROKER, SALVAGE),
        default=BROKER,
        shows_default=True,
    )
    from_replica: str | None = option(
        "--from-replica",
        INPUT,
        "Salvage, and fill gaps from another replica: a partition or its log directory.",
        PathKind(is_checked=True),
        metavar="DIR",
    )
    records: str | None = option(
        "--records",
        CONTENTS,
        "Salvage, and write the decodable records of broken batches to FILE, as JSON Lines.",
        PathKind(is_checked=True),
        metavar="FILE",
    )
    drops_undecodable: bool = option(
        "--drop-undecodable",
        RULES,
        "Salvage, and drop batches whose records cannot be decoded, though their checksums are right.",
        bool,
    )
    drop_batches: frozenset[int] = option(
        "--drop-batch",
        RULES,
        "Salvage, and drop the batch that holds this offset; may be repeated.",
        Number(),
        metavar="OFFSET",
        default=frozenset(),
        is_many=True,
        in_python="drop_batches",
    )
    scans_all: bool = option(
        "--full", RULES, "Scan every segment, even after a clean shutdown or below the recovery point.", bool
    )
    undeletes: bool = option(
        "--undelete",
        RULES,
        "Restore directories that end in -delete, -stray or -future, and segments that end in .deleted.",
        bool,
    )
    rebuilds_epochs: bool = option(
        "--rebuild-epochs",
        RULES,
        "Rebuild leader-epoch-checkpoint from the batches; in a log directory only if it is missing or bad.",
        bool,
    )
    topic_id: str | None = option(
        "--topic-id", RULES, "Write this topic id to partition.metadata.", Value("UUID", _topic_id)
    )
    era: Era = values.era()
    max_message_bytes: int = option(
        "--max-message-bytes",
        RULES,
        "With --era 0.8.1 to 0.10.2: a larger message counts as damaged, as for such a broker.",
        BYTES,
        default=DEFAULT_MESSAGE_LIMIT_BYTES,
        shows_default=True,
    )
    carves: bool = option(
        "--carve",
        INPUT,
        "Bring logs back out of raw bytes: PATHs are disk images, block devices or any files; needs --output.",
        bool,
    )
    likes: tuple[str, ...] = option(
        "--like",
        INPUT,
        "With --carve: name logs as this log directory does, which holds a part of them; may be repeated.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
        is_many=True,
    )
    metadata_snapshot: bool = option(
        "--metadata-snapshot",
        RULES,
        "Replace the cluster's metadata log by a snapshot of all records that can be replayed: for its only voter.",
        bool,
    )
    new_quorum: int | None = option(
        "--new-quorum",
        RULES,
        "Write a log directory for a new, single controller NODE out of a node's metadata log; needs --output.",
        Number(0, (1 << 31) - 1),
        metavar="NODE",
    )
    listener: Listener | None = option(
        "--listener",
        RULES,
        "With --new-quorum: the listener of the controller.",
        Value("NAME://HOST:PORT", Listener.parsed),
    )
    topics_from: tuple[str, ...] = option(
        "--topics-from",
        INPUT,
        "With --metadata-snapshot and --new-quorum: also topics from this log directory's partitions; may be repeated.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
        is_many=True,
    )
    as_of: int | None = option(
        "--as-of",
        INPUT,
        "With --metadata-snapshot and --new-quorum: only records below OFFSET.",
        Number(),
        metavar="OFFSET",
    )
    from_remote: str | None = option(
        "--from-remote",
        INPUT,
        "Rebuild partitions from remote (tiered) storage in --output; PATH: a log directory that is left, if any.",
        metavar="REMOTE",
    )
    private_keys: tuple[str, ...] = values.private_keys()
    topics: tuple[str, ...] = values.topics("a log directory or remote storage")
    new_cluster: str | None = option(
        "--for-cluster",
        INPUT,
        "Make the partitions fit for the cluster of a broker: topic ids and log starts.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
    )
    resets_epochs: bool = option(
        "--reset-epochs",
        RULES,
        "With --from-remote, --undelete, --as or --for-cluster: set the leader epochs of batches to 0, so that groups "
        "can continue at once.",
        bool,
    )
    name: str | None = option(
        "--as", RULES, "With --output: the new name of the topic, or TOPIC-N for one partition.", metavar="TOPIC"
    )
    interval_bytes: int | None = values.index_interval()
    server: ServerProperties | None = values.server()
    now_ms: int | None = values.now()
    jobs: int | None = values.jobs("threads for each file")

    @property
    def is_salvage(self) -> bool:
        return self.mode == SALVAGE

    @property
    def rules(self) -> Era:
        """The rules of the release, with the limit of message sizes."""
        return replace(self.era, message_limit_bytes=self.max_message_bytes)


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """The options of `kseg reindex`. ``with_snapshots``: producer snapshots are rebuilt as well."""

    with_snapshots: bool = option("--snapshots", RULES, "Rebuild the producer snapshots too.", bool)
    checks: bool = option("--check", RULES, "Change nothing; report missing and wrong indexes only.", bool)
    era: Era = values.era()
    interval_bytes: int | None = values.index_interval()
    topics: tuple[str, ...] = values.topics()
    jobs: int | None = values.jobs("threads for each file")
