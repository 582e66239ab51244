"""The options of recovery and reindexing, and what is known of a partition when its load starts: topic ids and
deleted segments."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap

from kseg.changes.journal import TopicPartition
from kseg.errors import refuse_if
from kseg.formats.suffixes import DELETED, LOG, SEGMENT_SUFFIXES, SNAPSHOT
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.state.indexing import EpochState
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.node.coordinators import partitions_in, topic_id_at
from kseg.node.node import Node
from kseg.node.server_properties import ServerProperties
from kseg.options import declaration
from kseg.options.declaration import BYTES, CONTENTS, INPUT, RULES, Number, PathKind, Value, option
from kseg.recovery.broker.segments import LeaderEpochs, epoch_changes
from kseg.recovery.workspace import BrokerRefusesError, Workspace
from kseg.releases.release import DEFAULT_MESSAGE_LIMIT_BYTES, Era
from kseg.segment import files as segment_files
from kseg.segment.files import directory_name, list_segments, segment_stem
from kseg.segment.survey import FULL, QUICK, BatchProblem, HeaderRows, open_survey
from kseg.sidefiles import checkpoints, text_files
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.text_files import PARTITION_METADATA, PartitionMetadata
from kseg.stores.place import Place
from kseg.stores.windows import Buffers

# Repairs partition.metadata: without it a KRaft broker renames the log to -stray, and a malformed one stops any
# broker.
#
# Sources: PartitionMetadataFile, LogManager.isStrayReplica, UnifiedLog.initializeTopicId of Kafka 4.3.1.

_MAX_BYTES = 1 << 16


class TopicIds:
    """The topic ids of a node, by topic. The id ``given`` by the user comes first, then that of the cluster metadata,
    then that of other partitions of the topic, also in ``root``."""

    def __init__(self, node: Node, root: str, given: Callable[[str], str | None] = lambda _: None) -> None:
        self.given = given
        self._node, self._root = node, root
        self._found: dict[str, dict[int, str]] = {}

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft node has written the log directory; then each partition has the file."""
        return self._node.is_kraft

    @cached_property
    def _paths(self) -> dict[TopicPartition, str]:
        roots = [one.path for one in self._node.directories] or [self._root]
        return {place: path for root in roots for place, path in partitions_in(root)}

    def find(self, topic: str) -> tuple[str, str] | None:
        """Returns an id and its source; None if no partition has one, or if they disagree."""
        if topic == segment_files.METADATA_TOPIC:
            return segment_files.METADATA_TOPIC_ID, "the same in each cluster"
        if (given := self.given(topic)) is not None:
            return given, "as it is given"
        if (known := self._node.topic_id(topic)) is not None:
            return known, f"as in {segment_files.METADATA_TOPIC}-0"
        if topic not in self._found:
            read = {place[1]: topic_id_at(path) for place, path in self._paths.items() if place[0] == topic}
            self._found[topic] = {number: topic_id for number, topic_id in read.items() if topic_id is not None}
        found = self._found[topic]
        ids = set(found.values())
        return (ids.pop(), f"as in {topic}-{min(found)}") if len(ids) == 1 else None


def repair_topic_id(workspace: Workspace, ids: TopicIds, new_name: str = "") -> str:
    """Writes the file if it is missing, malformed or not the given id. Returns the remaining problem, "" for none.
    A node writes a missing one of the metadata log itself.

    ``new_name``: that of the directory afterwards, "" if it stays. Then the id is that of a topic of this name; one of
    another topic is removed. Raises BrokerRefusesError if the file cannot be read and no id is known.
    """
    old_name = directory_name(workspace.directory)
    name = new_name or old_name
    partition = segment_files.parse_partition_name(name)
    if partition is None or name != f"{partition[0]}-{partition[1]}":
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
    found = ids.find(partition[0]) if has_file or ids.is_kraft or given is not None else None
    if found is not None:
        _write_id(workspace, *found)
        return ""
    if has_file:
        raise BrokerRefusesError(
            f"{workspace.directory}/{PARTITION_METADATA}: cannot be read: a broker does not start with it; "
            "--topic-id UUID writes a new one"
        )
    if not ids.is_kraft or not any(workspace.size(log) for log in workspace.names(LOG)):
        return ""  # a broker writes the file of an empty log
    return (
        f"has no {PARTITION_METADATA}, without which a broker begins an empty log in its place; "
        "--topic-id UUID writes one"
    )


def _write_id(workspace: Workspace, topic_id: str, source: str) -> None:
    content = text_files.build_partition_metadata(PartitionMetadata(0, topic_id))
    workspace.write(PARTITION_METADATA, [content], f"the id of the topic, {source}")


# Segments that a broker has marked as deleted (`.deleted`) and that can be restored to their log.
#
# Retention deletes whole segments at the start of a log, a truncation whole segments at its end; brokers rename their
# files and remove them a minute later. The cleaner does the same with segments that it has replaced: the log still has
# their offsets, so these are not restored. Sources: LocalLog.deleteSegmentFiles and replaceSegments of Kafka 4.3.1.


@dataclass(slots=True)
class SegmentSpan:
    """``next_offset``: that after the last batch, -1 if there is none; ``epochs``: where each leader epoch begins."""

    base_offset: int = 0
    next_offset: int = -1
    is_intact: bool = True
    epochs: list[EpochEntry] = field(default_factory=list)


def span_of(path: str, buffers: Buffers, level: int = FULL) -> SegmentSpan:
    """Reads a segment at a level of `kseg.segment.survey`. Raises PathError."""
    span = SegmentSpan()
    before = EpochState()
    with open_survey(path, level, buffers) as survey:
        for item in survey:
            if isinstance(item, HeaderRows):
                if level >= FULL:
                    span.is_intact &= all(state & CRC_RIGHT for state in item.states)
                span.next_offset = item[-1].last_offset + 1
                span.epochs += starmap(EpochEntry, epoch_changes(item, before))
            elif not isinstance(item, BatchProblem):
                span.is_intact = False
    return span


@dataclass(slots=True)
class DeletedSegments:
    """``restored``: by base offset; ``skipped``: path and reason of each other one."""

    restored: list[SegmentSpan] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def restore(self, workspace: Workspace) -> None:
        """Renames the files in a workspace, and adds the leader epochs."""
        for segment in self.restored:
            reason = f"takes offsets {segment.base_offset} to {segment.next_offset - 1} back"
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
                name = segment_stem(segment.base_offset) + suffix
                if name + DELETED in workspace and name not in workspace:
                    workspace.rename(name + DELETED, name, reason)
        if LEADER_EPOCHS not in workspace:
            return
        known = checkpoints.plain_epochs(workspace.read(LEADER_EPOCHS))
        if known == []:
            workspace.delete(LEADER_EPOCHS, "holds no epoch")  # a broker empties it before it deletes a log
        elif known and self.restored:
            starts: dict[int, int] = {}  # each epoch from the lower of its start offsets on
            for entry in (*known, *(entry for segment in self.restored for entry in segment.epochs)):
                starts[entry.epoch] = min(entry.start_offset, starts.get(entry.epoch, entry.start_offset))
            epochs = LeaderEpochs(EpochEntry(epoch, start) for epoch, start in sorted(starts.items())).entries
            workspace.write(LEADER_EPOCHS, [build_leader_epochs(epochs)], "with the epochs of restored segments")


def deleted_segments(directory: str, log_start: int = 0) -> DeletedSegments:
    """Chooses the segments of a partition directory that fit between those of the log, and do not end below a log start
    offset. Raises PathError."""
    files = [file for file in list_segments(directory, everything=True) if file.kind == LOG]
    paths = {file.base_offset: file.path for file in files if not file.leftover and file.base_offset is not None}
    bases, buffers, found = sorted(paths), Buffers(), DeletedSegments()
    spans: dict[int, SegmentSpan] = {}

    def span_at(at: int) -> SegmentSpan | None:
        """Returns the span of a segment of the log, or of one already restored."""
        if not 0 <= at < len(bases):
            return None
        base = bases[at]
        if base not in spans:
            spans[base] = span_of(paths[base], buffers, QUICK)
            spans[base].base_offset = base
        return spans[base]

    for file in files:
        if file.leftover != DELETED or file.base_offset is None:
            continue
        base, span = file.base_offset, span_of(file.path, buffers)
        span.base_offset = base
        if span.next_offset < 0:
            found.skipped.append((file.path, "holds no batch"))
            continue
        if span.next_offset <= log_start:
            text = f"its records were deleted on purpose, below the log start offset {log_start}: --topic restores them"
            found.skipped.append((file.path, text))
            continue
        at = bisect_left(bases, base)
        before, after = span_at(at - 1), span_at(at)
        if (before and before.next_offset > base) or (after and after.base_offset < span.next_offset):
            text = "the log has these offsets: a cleaner has replaced the segment, or others were written"
            found.skipped.append((file.path, text))
        elif not (_epochs_rise(before, span) and _epochs_rise(span, after)):
            text = "its leader epochs do not fit to the segments beside it: its records were given up"
            found.skipped.append((file.path, text))
        else:
            bases.insert(at, base)
            spans[base] = span
            found.restored.append(span)
    return found


def _epochs_rise(before: SegmentSpan | None, after: SegmentSpan | None) -> bool:
    if before is None or after is None or not before.epochs or not after.epochs:
        return True
    return before.epochs[-1].epoch <= after.epochs[0].epoch


def first_epoch_start(directory: str) -> int:
    """Returns the start offset of the first leader epoch, which is the log start offset; 0 if that is unknown."""
    entries, path = None, Place(directory) / LEADER_EPOCHS
    with suppress(OSError):  # no file, or one whose loss recovery reports
        entries = checkpoints.plain_epochs(path.read(MAX_ROOT_FILE_BYTES))
    return entries[0].start_offset if entries else 0


EPOCHS_KEPT, EPOCHS_REPAIRED, EPOCHS_REBUILT = 0, 1, 2
"""Whether leader epochs are rebuilt from the batches: never; if the file is missing or unreadable; always."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """``interval_bytes``: index.interval.bytes, None to infer it from the indexes (`kseg.node.topics`);
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
    if not segment_files.is_uuid(text) or text == segment_files.ZERO_UUID_TEXT:
        raise ValueError(f"{text!r} is not a topic id: 22 characters of base64url, as kafka-topics.sh shows it")
    return text


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The options of both `kseg recover` and `kseg restore`; None for an option that is not given.

    ``drops_undecodable``, ``drop_batches``: batches that a salvage removes; ``scans_all``: segments below the recovery
    point are scanned as well; ``era``: the release of Kafka whose rules apply; ``interval_bytes``:
    index.interval.bytes; ``jobs``: threads that read a file. ``topics``: globs, of a log directory only such
    partitions.
    """

    mode: str = option(
        "--mode",
        RULES,
        "broker: as a broker's start after an unclean shutdown; salvage: remove only damaged bytes.",
        (BROKER, SALVAGE),
        default=BROKER,
        shows_default=True,
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
        "Larger messages count as damaged, as for a broker of --era 0.8.1 to 0.10.2.",
        BYTES,
        default=DEFAULT_MESSAGE_LIMIT_BYTES,
        shows_default=True,
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
        salvages = self.replica is not None or self.drops_undecodable or self.drop_batches
        refuse_if(
            salvages and not self.is_salvage,
            f"from_replica, drop_undecodable and drop_batches need mode={SALVAGE!r}",
        )

    @property
    def replica(self) -> str | None:
        """The replica that fills gaps, None for none."""
        return None

    @property
    def for_one_topic(self) -> str:
        """The option that only partitions of one topic can have, "" if it is not given."""
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

    @property
    def replica(self) -> str | None:
        return self.from_replica


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """The options of `kseg reindex`. ``with_snapshots``: producer snapshots are rebuilt as well."""

    with_snapshots: bool = option("--snapshots", RULES, "Rebuild the producer snapshots too.", bool)
    checks: bool = option("--check", RULES, "Change nothing; report missing and wrong indexes only.", bool)
    era: Era = declaration.era()
    interval_bytes: int | None = declaration.index_interval()
    topics: tuple[str, ...] = declaration.topics()
    jobs: int | None = declaration.jobs("threads for each file")
