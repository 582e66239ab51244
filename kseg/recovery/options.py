"""The options of `kseg recover`, `restore` and `reindex`, what a broker's start depends on, and the text files of a
node: topic ids, and those that stop its start."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from kseg.changes.journal import TopicPartition, topic_partition_of
from kseg.errors import refuse_if
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.node.log_directory import METADATA_PARTITION, partitions_in, topic_id_at
from kseg.node.node import Node
from kseg.node.server_properties import ServerProperties
from kseg.options import declaration
from kseg.options.declaration import BYTES, CONTENTS, INPUT, RULES, Number, PathKind, Value, option
from kseg.recovery.leftovers import DeletedSegments
from kseg.recovery.workspace import BrokerRefusesError, Workspace
from kseg.releases.release import DEFAULT_MESSAGE_LIMIT_BYTES, Era
from kseg.segment import files as segment_files
from kseg.segment.files import directory_name
from kseg.sidefiles import checkpoints, text_files
from kseg.sidefiles.checkpoints import LEADER_EPOCHS
from kseg.sidefiles.problems import problems_of
from kseg.sidefiles.text_files import META_PROPERTIES, PARTITION_METADATA, MetaProperties, PartitionMetadata
from kseg.stores.place import Place

# Text files of a KRaft node: those that stop it from starting and that kseg cannot repair, and partition.metadata.
# Without the latter a KRaft broker renames the log to -stray, and a malformed one stops any broker.
#
# Sources: MetaPropertiesEnsemble, FileQuorumStateStore, PartitionMetadataFile, LogManager.isStrayReplica,
# UnifiedLog.initializeTopicId of Kafka 4.3.1.

_MAX_BYTES = 1 << 16


def node_file_problems(directory: str, with_properties: bool = True) -> Iterator[str]:
    """Yields a sentence for each file of a log directory that stops a node; nothing if the directory is not of KRaft.
    ``with_properties``: whether meta.properties is checked."""
    metadata, properties = Place(directory) / METADATA_PARTITION, Place(directory) / META_PROPERTIES
    if not metadata.is_dir():
        return
    lost = (
        "the metadata log does not tell its directory.id; a format writes a new one, under which the partitions here "
        "have no leader"
    )
    if with_properties and not properties.lexists():
        yield f"{properties}: is missing: a node of KRaft does not start without it; {lost}"
    new_state = "move it away, and the node begins a new one"
    for path, read, help_ in (
        (properties, text_files.read_meta_properties, lost),
        (metadata / segment_files.QUORUM_STATE, text_files.read_quorum_state, new_state),
    ):
        if not path.lexists() or (path == properties and not with_properties):
            continue
        try:
            items = list(read(path.head(text_files.MAX_TEXT_BYTES)))
            found = [problem.message for problem in problems_of(items)]
            missing = (text_files.missing_in_kraft(item) for item in items if isinstance(item, MetaProperties))
            found += [text for text in missing if text is not None]
        except OSError as error:
            found = [str(error.strerror)]
        if found:
            yield f"{path}: {found[0]}: a node of KRaft does not start with it; {help_}"


class TopicIds:
    """The topic ids of a node, by topic. The id ``given`` by the user comes first, then that of the cluster metadata,
    then that of other partitions of the topic: in the node's log directories, or in ``root`` if none is known."""

    def __init__(self, node: Node, root: str, given: Callable[[str], str | None] = lambda _: None) -> None:
        self.given, self.node, self._root = given, node, root
        self._found: dict[str, dict[int, str]] = {}

    @cached_property
    def _paths(self) -> dict[TopicPartition, str]:
        roots = [one.path for one in self.node.directories] or [self._root]
        return {place: path for root in roots for place, path in partitions_in(root)}

    def find(self, topic: str) -> tuple[str, str] | None:
        """Returns an id and its source; None if no partition has one, or if they disagree."""
        if topic == segment_files.METADATA_TOPIC:
            return segment_files.METADATA_TOPIC_ID, "the same in each cluster"
        if (given := self.given(topic)) is not None:
            return given, "as it is given"
        if (known := self.node.topic_id(topic)) is not None:
            return known, f"as in {segment_files.METADATA_TOPIC}-0"
        if topic not in self._found:
            read = {place[1]: topic_id_at(path) for place, path in self._paths.items() if place[0] == topic}
            self._found[topic] = {number: topic_id for number, topic_id in read.items() if topic_id is not None}
        found = self._found[topic]
        ids = set(found.values())
        return (ids.pop(), f"as in {topic}-{min(found)}") if len(ids) == 1 else None


def repair_topic_id(workspace: Workspace, ids: TopicIds, new_name: str = "") -> str:
    """Writes partition.metadata if it is missing, malformed or has not the given id. Returns the remaining problem, ""
    for none. A node itself writes a missing file of the metadata log.

    ``new_name``: the new name of the directory, "" if it stays. Then the file gets the id of the new topic; without a
    known one, that of another topic is removed. Raises BrokerRefusesError if the file is unreadable and no id is known.
    """
    old_name = directory_name(workspace.directory)
    if (partition := topic_partition_of(new_name or old_name)) is None:
        return ""
    has_file = PARTITION_METADATA in workspace
    if (is_metadata := partition[0] == segment_files.METADATA_TOPIC) and (new_name or not has_file):
        return ""
    if new_name:
        old = segment_files.parse_partition_name(old_name)
        if (found := ids.find(partition[0])) is not None:
            _write_id(workspace, *found)
        elif old is None or old[0] != partition[0]:
            workspace.delete(PARTITION_METADATA, f"is the id of another topic than {partition[0]}")
        return ""
    current = text_files.topic_id_in(workspace.read_range(PARTITION_METADATA, 0, _MAX_BYTES)) if has_file else None
    given = segment_files.METADATA_TOPIC_ID if is_metadata else ids.given(partition[0])
    if current is not None and given in (None, current):
        return ""
    found = ids.find(partition[0]) if has_file or ids.node.is_kraft or given is not None else None
    if found is not None:
        _write_id(workspace, *found)
        return ""
    if has_file:
        raise BrokerRefusesError(
            f"{workspace.directory}/{PARTITION_METADATA}: cannot be read: a broker does not start with it; "
            "--topic-id UUID writes a new one"
        )
    if not ids.node.is_kraft or not any(workspace.size(log) for log in workspace.names(LOG)):
        return ""  # a broker writes the file of an empty log
    return (
        f"has no {PARTITION_METADATA}, without which a broker begins an empty log in its place; "
        "--topic-id UUID writes one"
    )


def _write_id(workspace: Workspace, topic_id: str, source: str) -> None:
    content = text_files.build_partition_metadata(PartitionMetadata(0, topic_id))
    workspace.write(PARTITION_METADATA, [content], f"the id of the topic, {source}")


def first_epoch_start(directory: str) -> int:
    """Returns the start offset of the first leader epoch, which is the log start offset; 0 if it is unknown."""
    entries, path = None, Place(directory) / LEADER_EPOCHS
    with suppress(OSError):  # no file, or one whose loss recovery reports
        entries = checkpoints.plain_epochs(path.read(MAX_ROOT_FILE_BYTES))
    return entries[0].start_offset if entries else 0


EPOCHS_KEPT, EPOCHS_REPAIRED, EPOCHS_REBUILT = 0, 1, 2
"""Whether leader epochs are rebuilt from the batches: never; if the file is missing or unreadable; always."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """``interval_bytes``: index.interval.bytes, None to infer it from the indexes (`kseg.node.index_interval`);
    ``interval_source``: its source, "" for the caller; ``jobs``: threads that read a large segment; ``epochs``:
    EPOCHS_KEPT, EPOCHS_REPAIRED or EPOCHS_REBUILT; ``topic_ids``: those of the log directory, None to leave
    partition.metadata unchanged; ``name``: the new name of the directory, "" if it stays; ``deleted``: segments to
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
    if not segment_files.is_uuid(text) or text == segment_files.ZERO_UUID_TEXT:
        raise ValueError(f"{text!r} is not a topic id: 22 characters of base64url, as kafka-topics.sh shows it")
    return text


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The options of both `kseg recover` and `kseg restore`.

    ``drops_undecodable``, ``drop_batches``: batches that a salvage removes; ``scans_all``: segments below the recovery
    point are scanned as well; ``era``: the release of Kafka whose rules apply; ``interval_bytes``:
    index.interval.bytes; ``jobs``: threads that read a file; ``topics``: globs that select partitions of a log
    directory.
    """

    mode: str = option(
        "--mode",
        RULES,
        "broker: as a broker's start after an unclean shutdown; salvage: remove only damaged bytes.",
        (BROKER, SALVAGE),
        default=BROKER,
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
    rebuilds_epochs: bool = option(
        "--rebuild-epochs",
        RULES,
        "Rebuild leader-epoch-checkpoint from the batches; in a log directory only if it is missing or bad.",
        bool,
    )
    topic_id: str | None = option(
        "--topic-id", RULES, "Write this topic id to partition.metadata.", Value("UUID", _topic_id)
    )
    era: Era = declaration.era()
    max_message_bytes: int = option(
        "--max-message-bytes",
        RULES,
        f"Larger messages count as damaged, as for a broker of --era 0.8.1 to 0.10.2 ({DEFAULT_MESSAGE_LIMIT_BYTES}).",
        BYTES,
        default=DEFAULT_MESSAGE_LIMIT_BYTES,
    )
    topics: tuple[str, ...] = declaration.topics()
    interval_bytes: int | None = declaration.index_interval()
    server: ServerProperties | None = declaration.server()
    now_ms: int | None = declaration.now()
    jobs: int | None = declaration.jobs("threads for each file")

    @property
    def is_salvage(self) -> bool:
        return self.mode == SALVAGE

    def check_mode(self) -> None:
        """Raises RequestError for options of a salvage in mode broker."""
        salvages = self.from_replica is not None or self.drops_undecodable or self.drop_batches
        refuse_if(
            salvages and not self.is_salvage,
            f"from_replica, drop_undecodable and drop_batches need mode={SALVAGE!r}",
        )

    @property
    def from_replica(self) -> str | None:
        """The replica that fills gaps, None for none."""
        return None

    @property
    def for_one_topic(self) -> str:
        """The name of a given option that fits only partitions of one topic, "" if there is none."""
        return "--topic-id" if self.topic_id else ""


@dataclass(frozen=True, slots=True)
class RecoverOptions(RepairOptions):
    """The options of `kseg recover`. ``from_replica``: another replica of the partition, or its log directory."""

    from_replica: str | None = option(
        "--from-replica",
        INPUT,
        "Salvage, and fill gaps from another replica: a partition or its log directory.",
        PathKind(is_checked=True),
        metavar="DIR",
    )


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """The options of `kseg reindex`. ``with_snapshots``: producer snapshots are rebuilt as well."""

    with_snapshots: bool = option("--snapshots", RULES, "Rebuild the producer snapshots too.", bool)
    checks: bool = option("--check", RULES, "Change nothing; report missing and wrong indexes only.", bool)
    era: Era = declaration.era()
    interval_bytes: int | None = declaration.index_interval()
    topics: tuple[str, ...] = declaration.topics()
    jobs: int | None = declaration.jobs("threads for each file")
