"""New snapshots of __cluster_metadata: for its only voter, and for a new quorum made of any node's copy, or of the
partition directories where no copy is left.

A node loads the newest snapshot and the log behind it. So a snapshot whose offset and epoch are above all that any
node has, with an empty log at that offset, replaces a log that no node can load::

    SNAPSHOT_HEADER; KRAFT_VERSION and KRAFT_VOTERS if kraft.version is 1    a control batch
    the records of the image                                                 batches
    SNAPSHOT_FOOTER                                                          a control batch

An offset that a broker's log reaches would leave the broker with its old voters, and an epoch below its last one would
stop it. Sources: RecordsSnapshotWriter, KafkaRaftLog, KRaftControlRecordStateMachine of Kafka 4.4.0; KIP-630, KIP-853.
"""

import base64
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.changes.disk import Disk
from kseg.changes.driver.command import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known
from kseg.changes.lock import is_locked
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Removed, Step
from kseg.decoders.framed import framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import BrokerRunningError, KsegError, PathError, RequestError, refuse_if
from kseg.formats.control import control_record
from kseg.formats.json_values import name_value
from kseg.formats.record_batch import KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, build_batch
from kseg.formats.rows import Scratch
from kseg.formats.schema import ZERO_UUID
from kseg.formats.suffixes import LOG, SNAPSHOT
from kseg.node import metadata_image
from kseg.node.cluster_metadata import Raft, load_readable, load_snapshot, properties_of, quorum_of, read_raft
from kseg.node.coordinators import Coordinators
from kseg.node.log_directory import METADATA_PARTITION, checkpoint_offsets, is_moved, topic_id_at
from kseg.node.metadata_image import MetadataImage, PartitionImage, TopicImage, unstartable
from kseg.node.node import Nodes
from kseg.node.paths import expanded
from kseg.node.server_properties import ServerProperties
from kseg.options import declaration
from kseg.options.declaration import INPUT, RULES, Number, PathKind, Value, option
from kseg.quantities import plural
from kseg.recovery.leftovers import has_records
from kseg.releases.metadata import METADATA_VERSIONS
from kseg.segment import files as segment_files
from kseg.segment.files import METADATA_TOPIC, directory_name, list_segments
from kseg.segment.paths import some
from kseg.segment.reader import Run, open_segment
from kseg.segment.seek import seek_offset
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, LEADER_EPOCHS, EpochEntry, read_leader_epochs
from kseg.sidefiles.producer_state import ProducerSnapshot
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, META_PROPERTIES, PARTITION_METADATA, MetaProperties
from kseg.stores.place import Place
from kseg.stores.remote.recognition import is_topic


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


class Endpoint(NamedTuple):
    """``NODE=HOST:PORT`` of a voter."""

    node: int
    host: str
    port: int

    @classmethod
    def parsed(cls, text: str) -> "Endpoint":
        """Raises ValueError."""
        number, _, address = text.partition("=")
        try:
            listener = Listener.parsed(f"any://{address}")
            return cls(int(number), listener.host, listener.port)
        except ValueError:
            raise ValueError(f"{text!r} has not the form NODE=HOST:PORT") from None


def metadata_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Returns the PATHs, of a node only the disks with its metadata log if there is one. Raises PathError."""
    nodes = Nodes(paths)
    others = {
        os.path.realpath(one.path) for node in nodes.given if node.metadata is not None
        for one in node.directories if not one.holds_metadata
    }  # fmt: skip
    return tuple(path for path in nodes.paths if os.path.realpath(path) not in others)


@dataclass(frozen=True, slots=True)
class QuorumOptions:
    """The options of `kseg quorum`. ``rewrites``: a snapshot replaces the log of the only voter; ``survives``: the most
    advanced copy becomes that of the only voter, which others reach at one of ``endpoints``; ``node``: the id of a new,
    single controller. ``topics_from``: log directories whose partitions tell topics that the log lacks; ``as_of``:
    only records below this offset."""

    rewrites: bool = option(
        "--rewrite",
        RULES,
        "Replace the metadata log of the only voter by a snapshot of all records that can be replayed.",
        bool,
    )
    survives: bool = option(
        "--survivor",
        RULES,
        "Make the most advanced of the voters' copies given the log of the only voter, under its own id.",
        bool,
    )
    endpoints: tuple[Endpoint, ...] = option(
        "--endpoints",
        RULES,
        "Where the surviving voter listens, if not where it did; may be repeated.",
        Value("NODE=HOST:PORT", Endpoint.parsed),
        is_many=True,
    )
    node: int | None = option(
        "--new",
        RULES,
        "Write the log directory of a new, single controller NODE to --output.",
        Number(0, (1 << 31) - 1),
        metavar="NODE",
    )
    listener: Listener | None = option(
        "--listener", RULES, "The listener of the new controller.", Value("NAME://HOST:PORT", Listener.parsed)
    )
    topics_from: tuple[str, ...] = option(
        "--topics-from",
        INPUT,
        "Take topics that the metadata log lacks from this log directory's partitions; may be repeated.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
        is_many=True,
    )
    as_of: int | None = option("--as-of", INPUT, "Use only records below OFFSET.", Number(), metavar="OFFSET")
    server: ServerProperties | None = declaration.server(text="The configuration of the node, which names the voters.")

    def check(self, paths: Sequence[str], output: str | None) -> None:
        """Raises RequestError for options that contradict each other, or lack one."""
        jobs = [bool(self.rewrites), bool(self.survives), self.node is not None]
        refuse_if(sum(jobs) != 1, "give one of --rewrite, --survivor and --new NODE")
        refuse_if(not paths and (self.node is None or not self.topics_from), "Missing argument 'PATH...'.")
        refuse_if(bool(self.endpoints) and not self.survives, "--endpoints is for --survivor")
        if self.node is None:
            refuse_if(self.listener is not None, "--listener is for --new")
            return
        refuse_if(self.listener is None or output is None, "--new needs --listener and --output")
        refuse_if(self.server is not None, "--server-properties is for --rewrite and --survivor")
        refuse_if(len(paths) > 1, "--new takes one log directory")


# The topics of a cluster whose metadata are lost, as its log directories have them.
#
#     name and number     the name of the partition directory
#     topic id            partition.metadata
#     replicas            node.id and directory.id in meta.properties
#     leader epoch        leader-epoch-checkpoint and the last batches
#     producer ids        producer snapshots, the batches behind them, __transaction_state
#
# Everything else that only the metadata had is lost. This must have none of three consequences: batches with an older
# leader epoch than those before them, a producer id that is assigned twice, and retention by default settings. So the
# controller elects the leader of each partition, with a new epoch; the next producer id is far above all known ones;
# and topics get settings under which nothing is deleted. Sources: PartitionRegistration, ReplicationControlManager,
# ProducerIdControlManager, the topics that KafkaApis creates, of Kafka 4.4.0.

SAFE_LEVEL = 21
"""metadata.version 3.9-IV0: the first one with dynamic voters; each release from 3.9 on knows it."""
PRODUCER_ID_MARGIN = 1_000_000_000
MAX_MISSING = 100_000
"""Partitions in no log directory for which a cluster is still made."""
_LARGEST_PRODUCER_ID = 1 << 62
_LAST_NUMBER = (1 << 31) - 1
_MAX_NAMES = 10
_NO_LEADER = -1
_SNAPSHOT_NAME = re.compile(rf"[0-9]{{20}}{re.escape(SNAPSHOT)}")

_KEEPS_ALL = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
_INTERNAL_SEGMENTS = {"segment.bytes": "104857600"}
_SETTINGS = {
    "__consumer_offsets": {"cleanup.policy": "compact", "compression.type": "producer", **_INTERNAL_SEGMENTS},
    "__transaction_state": {
        "cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false",
        **_INTERNAL_SEGMENTS,
    },
    "__share_group_state": {
        "cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1", **_INTERNAL_SEGMENTS,
    },
}  # fmt: skip
"""The settings of internal topics, as brokers create them."""
_MOVED = {
    "-stray": "brokers set them aside; kseg restore --undelete restores their names, then they are taken",
    "-stray, without records": "create their topics, or partitions, again",
    "-delete": "their topics were deleted; kseg restore --undelete restores them",
    "-future": "copies that a broker had not completed",
}
_EMPTY = ", without records"


class PartitionReplica(NamedTuple):
    """A partition directory, its broker and log directory; leader ``epoch`` and end ``offset`` of its log."""

    path: str
    node: int
    directory_id: str
    epoch: int
    offset: int


Partitions = dict[int, list[PartitionReplica]]
"""The replicas of a topic's partitions by number."""


def _paths(partitions: Partitions) -> list[str]:
    return [replica.path for replicas in partitions.values() for replica in replicas]


def _written_ns(path: str) -> int:
    with suppress(OSError):
        return (Place(path) / PARTITION_METADATA).status().st_mtime_ns
    return 0


class DirectoryTopics:
    """The topics of log directories. ``left_out``: what a new cluster lacks, or a broker has to be given first;
    ``remarks``: what else users should know; both as sentences. ``nodes``: the brokers of the directories, with the
    number of directories of each."""

    def __init__(self, directories: dict[str, MetaProperties]) -> None:
        """Reads the partitions of the log directories. Raises PathError if one cannot be read."""
        self.directories = list(directories)
        self.left_out: list[KsegError] = []
        self.remarks: list[str] = []
        self.nodes: Counter[int] = Counter()
        self._topics: dict[str, dict[str | None, Partitions]] = {}
        """By topic id (None: unknown)."""
        self._compacted: set[str] = set()
        self._highest_producer_id = -1
        self._level: tuple[int, dict[str, int]] | None = None
        self._scratch = Scratch()
        for directory, meta in directories.items():
            if meta.version != 1 or meta.node_id is None:
                raise PathError(f"{directory}: meta.properties is not that of a KRaft node")
            self.nodes[meta.node_id] += 1
            self._read(directory, meta.node_id, meta.directory_id or "")

    def _read(self, directory: str, node: int, directory_id: str) -> None:
        directory_id = directory_id if segment_files.is_uuid(directory_id) else ZERO_UUID
        moved: Counter[str] = Counter()
        for path in segment_files.list_partitions(directory):
            name = os.path.basename(path)
            topic, number = segment_files.parse_partition_name(name) or ("", 0)
            if is_moved(name):
                moved[name[name.rindex("-") :] + _EMPTY * (not has_records(path))] += 1
            elif topic == METADATA_TOPIC:
                continue
            elif name != f"{topic}-{number}" or number > _LAST_NUMBER or not is_topic(topic):
                self._leave(path, "is no name of a partition")
            elif Place(path).is_link():
                self._leave(path, "is a link out of the log directory: give the log directory that holds its target")
            else:
                epoch, offset, producer_id = replica_end(path, self._scratch)
                self._highest_producer_id = max(self._highest_producer_id, producer_id)
                partitions = self._topics.setdefault(topic, {}).setdefault(topic_id_at(path), {})
                partitions.setdefault(number, []).append(PartitionReplica(path, node, directory_id, epoch, offset))
        for suffix, count in sorted(moved.items()):
            if suffix not in _MOVED:
                continue
            text = f"{directory}: {plural(count, 'directory ends', 'directories end')} in {suffix}: {_MOVED[suffix]}"
            if suffix.startswith("-stray"):
                self.left_out.append(KsegError(text))
            else:
                self.remarks.append(text)
        of_transactions = _usable(Coordinators([directory]).transaction_states)
        self._highest_producer_id = max([self._highest_producer_id, *of_transactions])
        self._compacted |= {topic for topic, _ in checkpoint_offsets(Place(directory) / CLEANER_OFFSETS)}
        # A bootstrap snapshot has metadata.version, and the features beside it.
        inside = Place(directory) / METADATA_PARTITION
        for path in (Place(directory) / segment_files.BOOTSTRAP, inside / segment_files.snapshot_name(0, 0)):
            with suppress(KsegError):
                image = load_snapshot(path).image
                if image.metadata_version is not None and (not self._level or self._level[0] < image.metadata_version):
                    self._level = image.metadata_version, image.features

    def _leave(self, path: str, why: str) -> None:
        self.left_out.append(KsegError(f"{path}: {why}"))

    def add_to(self, image: MetadataImage) -> None:
        """Adds the topics and partitions that the image lacks. Raises KsegError if too many are in no directory."""
        if image.metadata_version is None:
            level, image.features = self._level or (SAFE_LEVEL, {})
            source = "as at the time of format" if self._level else "as each release from 3.9 on knows it"
            has_several = max(self.nodes.values(), default=0) > 1
            image.metadata_version = max(level, metadata_image.DIRECTORIES_SINCE) if has_several else level
            self.remarks.append(
                f"metadata.version is {METADATA_VERSIONS[image.metadata_version]}, {source}: raise it with "
                "kafka-features.sh upgrade --release-version"
            )
        missing, new = 0, list[str]()
        for name, by_id in sorted(self._topics.items()):
            without_id = by_id.pop(None, {})
            paths = {each: _paths(partitions) for each, partitions in by_id.items()}
            # Of a topic that the image lacks, the id that most directories have; of several the newest.
            topic_id = image.topic_ids.get(name) or max(
                paths, key=lambda each: (len(paths[each]), max(map(_written_ns, paths[each]))), default=None
            )
            if topic_id is None:
                for path in _paths(without_id):
                    self._leave(path, "no partition.metadata has the topic id; kseg recover --topic-id UUID writes one")
                continue
            for other in sorted(other for other in paths if other and other != topic_id):
                for path in paths[other]:
                    self._leave(path, f"it has topic id {other}, topic {name} has {topic_id}: it will become -stray")
            text = f"has no valid partition.metadata: kseg recover --topic-id {topic_id} must write it before a start"
            for path in _paths(without_id):
                self._leave(path, text)
            partitions = by_id.get(topic_id, {})
            for number, replicas in without_id.items():
                partitions.setdefault(number, []).extend(replicas)
            known = image.topics.get(topic_id)
            if known is None:
                known = image.topics[topic_id] = TopicImage(name, topic_id)
                image.topic_ids[name] = topic_id
                image.configs.setdefault((metadata_image.TOPIC_RESOURCE, name), dict(_SETTINGS.get(name, _KEEPS_ALL)))
                new.append(name)
            missing += self._add_partitions(known, partitions, MAX_MISSING - missing)
        next_id = max(self._highest_producer_id + 1, image.producer_ids.get("next", 0))
        image.producer_ids["next"] = next_id + PRODUCER_ID_MARGIN
        if not image.topics:
            lacking = f"no partition of a topic is in {', '.join(self.directories)}"
            raise KsegError("; ".join([lacking, *map(str, self.left_out[:1])]))
        if topics := [name for name in new if name not in _SETTINGS]:
            self.remarks.append(
                f"the settings of {plural(len(topics), 'topic is', 'topics are')} lost, and with the metadata log "
                "ACLs, quotas and credentials: brokers delete no records of these topics until cleanup.policy, "
                "retention.ms and retention.bytes are set again"
            )
        if compacted := sorted(self._compacted.intersection(topics)):
            self.remarks.append(f"compacted until now: {some(compacted, _MAX_NAMES)}")

    def _add_partitions(self, topic: TopicImage, found: Partitions, most_missing: int) -> int:
        """Adds partitions to a topic, also missing ones: numbers have no holes. Returns how many are missing."""
        for number, replicas in found.items():
            if number not in topic.partitions:
                topic.partitions[number] = self._partition(number, replicas)
        highest = max(topic.partitions, default=-1)
        if highest + 1 - len(topic.partitions) > most_missing:
            raise KsegError(
                f"topic {topic.name}: partition {highest} is there, and more than {MAX_MISSING} are in none of the log "
                "directories: give those of the other brokers, too"
            )
        missing = [number for number in range(highest) if number not in topic.partitions]
        nodes = sorted({replica.node for replicas in found.values() for replica in replicas})
        for number in missing:
            node = nodes[number % len(nodes)]
            topic.partitions[number] = _led_by_first((node,), (ZERO_UUID,), 0)
        if missing:
            self.left_out.append(KsegError(
                f"topic {topic.name}: {plural(len(missing), 'partition is', 'partitions are')} in none of the log "
                f"directories and will be empty: {_ranges(missing)}"
            ))  # fmt: skip
        return len(missing)

    def _partition(self, number: int, replicas: list[PartitionReplica]) -> PartitionImage:
        """Returns a partition whose only replica in sync is the one that reaches furthest; of several such replicas
        each partition takes another one."""
        by_node: dict[int, PartitionReplica] = {}
        first = number % len(replicas)
        in_turn = [*replicas[first:], *replicas[:first]]
        for replica in sorted(in_turn, key=lambda each: (each.epoch, each.offset), reverse=True):
            if (other := by_node.setdefault(replica.node, replica)) is not replica:
                self._leave(replica.path, f"broker {replica.node} also has {other.path}, and does not start with both")
        nodes = tuple(by_node)
        epoch = min(max(replica.epoch for replica in replicas), _LAST_NUMBER - 1)
        directories = tuple(replica.directory_id for replica in by_node.values())
        return _led_by_first(nodes, directories, epoch)


def _led_by_first(nodes: tuple[int, ...], directories: tuple[str, ...], epoch: int) -> PartitionImage:
    """Returns a partition without a leader, for which only the first broker can be elected: it alone is in sync. Where
    eligible leader replicas are on, a broker whose stop was unclean is elected as the last known leader only."""
    return PartitionImage(nodes, directories, nodes[:1], (), (), _NO_LEADER, 0, epoch, 0, last_known_elr=nodes[:1])


def replica_end(path: str, scratch: Scratch) -> tuple[int, int, int]:
    """Returns leader epoch and offset at which the log of a partition directory ends, and the largest producer id that
    its broker knows, -1 for none; damaged bytes at its end do not count. Reads no more than a broker that starts after
    an unclean stop: what lies behind the newest producer snapshot."""
    epoch = offset = 0
    snapshot, producer_id = -1, -1
    with suppress(OSError):
        epochs = read_leader_epochs((Place(path) / LEADER_EPOCHS).read(MAX_TEXT_BYTES))
        epoch = max((entry.epoch for entry in epochs if isinstance(entry, EpochEntry)), default=0)
    with suppress(KsegError):
        if newest := max(filter(_SNAPSHOT_NAME.fullmatch, segment_files.file_names(path)), default=""):
            snapshot = int(newest.removesuffix(SNAPSHOT))
            with suppress(OSError):
                state = ProducerSnapshot((Place(path) / newest).read(MAX_TEXT_BYTES))
                if state.kafka_refusal() is None:
                    producer_id = max(_usable(entry.producer_id for entry in state), default=-1)
        logs = [file for file in list_segments(path) if file.kind == LOG and file.base_offset is not None]
        for last in logs[-1:]:
            offset = last.base_offset or 0
            with open_segment(last, scratch) as reader:
                reader.begin_at(seek_offset(reader, last, snapshot).position if snapshot > offset else 0)
                for run in reader.runs():
                    rows = HeaderRows(reader.headers(run), run.count) if isinstance(run, Run) else ()
                    for row in rows:
                        if row.has_right_crc:
                            epoch, offset = max(epoch, row.epoch), max(offset, row.last_offset + 1)
                            producer_id = max(producer_id, *_usable([row.producer_id]), -1)
    return epoch, min(offset, segment_files.LAST_OFFSET), producer_id


def _usable(producer_ids: Iterable[int]) -> list[int]:
    """Filters ids to those that leave room for later ones."""
    return [producer_id for producer_id in producer_ids if producer_id < _LARGEST_PRODUCER_ID]


def _ranges(numbers: list[int]) -> str:
    """Returns rising numbers as text, such as "0, 2 to 4", shortened behind _MAX_NAMES ranges."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:_MAX_NAMES]]
    return ", ".join(shown) + ", ..." * (len(ranges) > _MAX_NAMES)


MARGIN_OFFSETS = 1000
"""How far the new snapshot is above all that this copy has: other nodes may have more."""
LOST_OFFSETS, LOST_EPOCHS = 1_000_000_000, 1_000_000
"""The same where no copy is left: nodes that are not asked may have one."""
MAX_LEFT_OUT = 20
"""Sentences about records and directories left out, for people; JSON has all."""
_BATCH_BYTES = 1 << 20
_FOOTER: list[tuple[bytes | None, bytes]] = [control_record(SNAPSHOT_FOOTER, {})]


def snapshot_bytes(image: MetadataImage, raft: Raft, epoch: int) -> tuple[bytes, int]:
    """Returns the contents of a snapshot, and its number of data records. Raises KsegError for records that
    metadata.version cannot hold."""
    head: list[tuple[bytes | None, bytes]] = [
        control_record(SNAPSHOT_HEADER, {"lastContainedLogTimestamp": raft.timestamp})
    ]
    if raft.version:
        head.append(control_record(KRAFT_VERSION, {"kRaftVersion": raft.version}))
        head.append(control_record(KRAFT_VOTERS, {"voters": raft.voters}))

    out, count = bytearray(), 0
    for records, is_control in ((head, True), *((batch, False) for batch in _batches(image)), (_FOOTER, True)):
        out += build_batch(count, epoch, raft.timestamp, records, is_control)
        count += len(records)
    return bytes(out), count - len(head) - len(_FOOTER)


def _batches(image: MetadataImage) -> Iterator[list[tuple[bytes | None, bytes]]]:
    """Yields the records of an image, in batches of about `_BATCH_BYTES`."""
    pending, size = list[tuple[bytes | None, bytes]](), 0
    for record in image.records():
        try:
            pending.append((None, framed(record, CLUSTER_METADATA)))
        except ValueError as error:
            raise KsegError(f"a {CLUSTER_METADATA[record.api_key].name} cannot be written: {error}") from error
        size += len(pending[-1][1])
        if size >= _BATCH_BYTES:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


@dataclass(slots=True)
class NewSnapshot:
    """A snapshot that replaces a log: its contents, where it is, whether the voters are in it or in the settings of the
    nodes, and what could not be taken over."""

    offset: int
    epoch: int
    data: bytes
    said: str
    has_dynamic_voters: bool
    left_out: list[KsegError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def files(self) -> dict[str, tuple[bytes, str]]:
        """The new files by name, each with the reason: the snapshot, and the empty log behind it."""
        return {
            segment_files.snapshot_name(self.offset, self.epoch): (self.data, f"a snapshot of {self.said}"),
            segment_files.segment_stem(self.offset) + LOG: (b"", "the log goes on at the snapshot"),
        }

    def facts(self, directory: str) -> list[dict[str, Any]]:
        """Returns what is left out as objects of JSON."""
        row = {"type": "remains", "directory": name_value(directory)}
        return [row | {"message": str(error)} for error in self.left_out]

    def report(self, warn: Callable[[str], None]) -> None:
        """Tells people what is left out."""
        for error in self.left_out[:MAX_LEFT_OUT]:
            warn(f"left out: {error}")
        if len(self.left_out) > MAX_LEFT_OUT:
            warn(f"left out: {len(self.left_out) - MAX_LEFT_OUT} more; --format json lists all")
        for text in self.remarks:
            warn(text)


def new_snapshot(
    directory: str | None,
    end: int | None,
    voters: list[dict[str, Any]] | None = None,
    topics: DirectoryTopics | None = None,
    others: Iterable[Raft] | None = None,
) -> NewSnapshot:
    """Makes a snapshot of all records below ``end`` that can be read and replayed. ``voters``: of a new quorum, whose
    controllers are not yet registered; None: the last ones. ``topics``: those of log directories, for what the log
    lacks; then ``directory`` may be None. ``others``: what other copies have, if the new quorum is a voter of the old
    one. Raises KsegError."""
    files = [] if directory is None else list_segments(directory)
    if not files and topics is None:
        raise PathError(f"{directory}: holds no {METADATA_TOPIC}")
    where = directory or METADATA_TOPIC
    loaded, left_out = load_readable(files, end)
    image, raft = loaded.image, read_raft(directory, files) if directory is not None else Raft(0, 0, -1, 0, [])
    if topics is not None:
        topics.add_to(image)
        raft = _above_all(raft, topics.directories, image, has_copy=bool(files))
    if image.metadata_version is None:
        raise KsegError(f"{where}: no record of metadata.version can be read, so no snapshot can be written")
    for text, take_out in unstartable(image):
        if take_out is None:
            raise KsegError(f"{where}: {text}: no node would start with a snapshot of it")
        take_out()
        left_out.append(KsegError(f"{where}: {text}"))
    for topic in [topic for topic in image.topics.values() if not topic.partitions]:
        left_out.append(KsegError(f"{where}: the partitions of topic {topic.name} ({topic.topic_id}) are unknown"))
        del image.topics[topic.topic_id]
    if voters is None and raft.version and not raft.voters:
        raise KsegError(f"{where}: no record of the voters can be read: only kseg quorum --new can bring the log back")
    remarks = [] if topics is None else [*topics.remarks]
    for path in topics.directories if topics is not None and not files else ():
        copy = Place(path) / METADATA_PARTITION
        if copy.is_dir():
            remarks.append(f"{copy}: if it can be read, give it as PATH, to keep settings")
    if voters is not None:
        if others is None:
            remarks += _checked_controller(voters[0]["voterId"], image, raft, topics)
        for other in others or ():
            raft = raft._replace(offset=max(raft.offset, other.offset), epoch=max(raft.epoch, other.epoch))
        image.controllers.clear()
        raft = raft._replace(voters=voters)
    offset, epoch = raft.offset + MARGIN_OFFSETS, raft.epoch + 1
    if offset > segment_files.LAST_OFFSET or epoch > _LAST_NUMBER:
        raise KsegError(f"{where}: no snapshot is above offset {raft.offset} and epoch {raft.epoch}, which it has")
    data, count = snapshot_bytes(image, raft, epoch)
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    of = f"the cluster at offset {loaded.offset}" if files else "what the log directories have"
    said = (
        f"{of}: {plural(count, 'record', 'records')}, "
        f"{plural(len(image.topics), 'topic', 'topics')}, {plural(partitions, 'partition', 'partitions')}"
    )
    if topics is not None:
        left_out += topics.left_out
    return NewSnapshot(offset, epoch, data, said, raft.version > 0, left_out, remarks)


def _checked_controller(node: int, image: MetadataImage, raft: Raft, topics: DirectoryTopics | None) -> list[str]:
    """Returns what users should know of a new controller under an id. Raises KsegError for that of a mere broker."""
    if node not in image.brokers and (topics is None or node not in topics.nodes):
        return []
    controllers = {*image.controllers, *(voter["voterId"] for voter in raft.voters)}
    if node in image.brokers and controllers and node not in controllers:
        raise KsegError(f"{node} is the id of a broker of this cluster: a controller needs an id of its own")
    return [
        f"{node} is also the id of a broker: it must be broker and controller in one process, with the new log "
        f"directory as its metadata.log.dir and no {METADATA_PARTITION} in the others"
    ]


def _above_all(raft: Raft, directories: list[str], image: MetadataImage, has_copy: bool) -> Raft:
    """Returns the offset and epoch that no file of the log directories exceeds, nor probably any of other nodes."""
    for path in directories:
        inside = Place(path) / METADATA_PARTITION
        if inside.is_dir():
            other = read_raft(inside, list_segments(inside))
            raft = raft._replace(
                offset=max(raft.offset, other.offset), epoch=max(raft.epoch, other.epoch),
                timestamp=max(raft.timestamp, other.timestamp),
            )  # fmt: skip
    if has_copy:
        return raft
    version = int((image.metadata_version or 0) >= SAFE_LEVEL)
    return raft._replace(offset=raft.offset + LOST_OFFSETS, epoch=raft.epoch + LOST_EPOCHS, version=version)


class RewritePlanner(Planner):
    """Plans ``quorum --rewrite``: files of the old log go, quorum-state and partition.metadata stay."""

    command = "quorum --rewrite"

    def __init__(self, options: QuorumOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self.options = options

    def plan_partition(self, directory: str, known: Known) -> Plan:
        if directory_name(directory) != METADATA_PARTITION:
            raise RequestError(f"{directory}: --rewrite is for {METADATA_PARTITION}, or its log directory")
        snapshot = self.snapshot(directory)
        snapshot.report(self.reporter.warning)
        self.damage_remains |= bool(snapshot.left_out)
        plan = Plan(directory, facts=snapshot.facts(directory))
        for name, (data, reason) in snapshot.files.items():
            plan.write(name, [data], reason)
        for name in sorted(Place(directory).names()):
            is_old = name == LEADER_EPOCHS or (name[:1].isdigit() and segment_files.is_part_of_log(name))
            if is_old and name not in snapshot.files:
                size = (Place(directory) / name).size()
                plan.delete(name, "the new snapshot replaces it", [Removed(0, size, "replaced")] if size else [])
        return plan

    def snapshot(self, directory: str) -> NewSnapshot:
        """Returns what replaces the log. Raises KsegError where it must not be replaced."""
        if quorum_of(directory, self.options.server).is_alone is False:
            raise KsegError(
                f"{directory}: by the voters of the log, this node is not the only one: kseg recover cuts it at "
                "the damage, and the node fetches the rest; kseg quorum --survivor goes on with one voter if most are "
                "lost, --new makes a new one if all are"
            )
        return new_snapshot(directory, self.options.as_of, topics=self.topics(directory))

    def topics(self, directory: str) -> DirectoryTopics | None:
        """Returns the topics of --topics-from. Raises KsegError, also for directories of another cluster."""
        metas = log_directory_properties(self.options.topics_from)
        if not metas:
            return None
        own = Place(directory).absolute.parent
        common_cluster_id({own: properties_of(own), **metas})
        return DirectoryTopics(metas)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        path = Place(directory) / METADATA_PARTITION
        if not path.is_dir():
            raise PathError(f"{directory}: holds no {METADATA_PARTITION}")
        paths = [] if METADATA_PARTITION in done else [path]
        yield from self.planned(paths, lambda at: self.plan_partition(at, known))


def write_new_quorum(
    source: str | None, options: QuorumOptions, change: ChangeOptions, warn: Callable[[str], None]
) -> tuple[Plan, NewSnapshot]:
    """Writes the log directory of a new, single controller, whole or not at all. ``source``: a node's log directory or
    its __cluster_metadata-0, None if no copy is left. Raises KsegError, also for an output that a broker or an earlier
    run uses, and for sources that a broker uses."""
    node, listener, output, directory = options.node, options.listener, str(change.output), None
    assert listener is not None
    if source is not None:
        if not Place(source).is_dir():
            raise PathError(f"{source}: is no directory: give a log directory")
        inside = Place(source) / METADATA_PARTITION
        is_partition = directory_name(source) == METADATA_PARTITION
        directory = inside if inside.is_dir() else source if is_partition else None
        if directory is None and not options.topics_from:
            raise PathError(f"{source}: holds no {METADATA_PARTITION}")
        if directory is None:
            warn(f"{source}: holds no {METADATA_PARTITION}: all is taken from the log directories")
    of_copy = [] if directory is None else [Place(directory).absolute.parent]
    of_topics = log_directory_properties(options.topics_from)
    metas = log_directory_properties([*of_copy, *options.topics_from])
    cluster_id, read = common_cluster_id(metas), list(metas)
    if Place(output).lexists() and Place(output).names():
        raise PathError(f"{output}: is not empty: a new quorum needs a log directory of its own")
    around = Place(os.path.realpath(output)).parent
    while around != around.parent:
        if (around / META_PROPERTIES).lexists():
            raise PathError(f"{output}: is inside the log directory {around}, with which no broker would start then")
        around = around.parent
    for path in filter(is_locked, read):
        text = f"{path}: a running broker, or another kseg, holds the log directory"
        if change.takes_lock and not change.is_dry:
            raise BrokerRunningError(f"{text}: stop it, or use --no-lock; nothing was written")
        warn(f"{text}: what it writes from now on is not in the new one")
    topics = DirectoryTopics(of_topics) if of_topics else None
    directory_id = "-"
    while directory_id.startswith("-"):  # as Kafka's own: a word that begins so would be an option
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    endpoint = {"name": listener.name, "host": listener.host, "port": listener.port}
    voter = {
        "voterId": node, "voterDirectoryId": directory_id, "endpoints": [endpoint],
        "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
    }  # fmt: skip
    snapshot = new_snapshot(directory, options.as_of, [voter], topics)
    properties = f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={directory_id}\n"
    files = {f"{METADATA_PARTITION}/{name}": file for name, file in snapshot.files.items()}
    files[META_PROPERTIES] = properties.encode(), "the node of the new quorum"
    steps = [Step(CREATE, name, reason, None, len(data)) for name, (data, reason) in files.items()]
    plan = Plan(output, steps, facts=snapshot.facts(output))
    with new_directories(output, change.takes_lock, change.is_dry, model=read[0]) as made:
        if not change.is_dry:
            made.add(METADATA_PARTITION, model=directory or read[0])
            for name, (data, _) in files.items():
                path = Place(made.folder) / name
                Disk().write_file(path, data, path.parent)
    return plan, snapshot


def settings_after(options: QuorumOptions, snapshot: NewSnapshot) -> str:
    """Returns the sentence on the settings that all nodes need for the new controller."""
    assert options.listener is not None
    address, voters = options.listener.address, f"controller.quorum.voters={options.node}@{options.listener.address}"
    if snapshot.has_dynamic_voters:
        voters = f"controller.quorum.bootstrap.servers={address}"
    return (
        f"set node.id={options.node} of the new controller, and {voters} on all nodes; start the controller first, "
        "then restart the brokers"
    )


def log_directory_properties(directories: Iterable[str]) -> dict[str, MetaProperties]:
    """Returns the properties of each log directory once, also of those of a node. Raises PathError."""
    paths = {os.path.realpath(path): path for path in expanded(directories)}
    return {path: properties_of(path) for path in paths.values()}


def common_cluster_id(metas: dict[str, MetaProperties]) -> str:
    """Returns the cluster.id of all log directories. Raises PathError."""
    found: dict[str, str] = {}
    for path, meta in metas.items():
        if meta.cluster_id is None:
            raise PathError(f"{path}: meta.properties has no cluster.id")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", meta.cluster_id):
            raise PathError(f"{path}: meta.properties: {meta.cluster_id!r} is no cluster.id")
        found.setdefault(meta.cluster_id, path)
    if len(found) > 1:
        (one, path), (other, another), *_ = found.items()
        raise PathError(f"{another}: is of cluster {other}, {path} of cluster {one}")
    return next(iter(found))
