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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kseg.changes.disk import Disk
from kseg.changes.driver.planner import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known
from kseg.changes.lock import is_locked
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Removed, Step
from kseg.decoders.framed import FramedRecord, framed
from kseg.decoders.schemas.metadata import CLUSTER_METADATA
from kseg.errors import BrokerRunningError, KsegError, PathError, RequestError
from kseg.formats.control import control_record
from kseg.formats.json_values import name_value
from kseg.formats.record_batch import KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, build_batch
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.logdir.log_directory import METADATA_PARTITION
from kseg.logdir.metadata_image import MetadataImage
from kseg.logdir.metadata_replay import load_readable
from kseg.logdir.quorum import Raft, is_only_voter, properties_of, read_raft
from kseg.quantities import plural
from kseg.recovery.directory_topics import SAFE_LEVEL, DirectoryTopics
from kseg.recovery.options import Listener, RecoverOptions
from kseg.segment.files import LAST_OFFSET, METADATA_TOPIC, is_part_of_log, list_segments, segment_stem, snapshot_name
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS
from kseg.sidefiles.meta_properties import META_PROPERTIES, MetaProperties
from kseg.stores import trees

MARGIN_OFFSETS = 1000
"""How far the new snapshot is above all that this copy has: other nodes may have more."""
LOST_OFFSETS, LOST_EPOCHS = 1_000_000_000, 1_000_000
"""The same where no copy is left: nodes that are not asked may have one."""
MAX_LEFT_OUT = 20
"""Sentences about records and directories left out, for people; JSON has all."""
_LAST_EPOCH = (1 << 31) - 1
_BATCH_BYTES = 1 << 20


def snapshot_bytes(image: MetadataImage, raft: Raft, epoch: int) -> tuple[bytes, int]:
    """Returns the contents of a snapshot, and its number of data records. Raises KsegError for records that
    metadata.version cannot hold."""
    out, count, offset = bytearray(), 0, 0

    def add(records: list[tuple[bytes | None, bytes]], is_control: bool = False) -> None:
        nonlocal offset
        out.extend(build_batch(offset, epoch, raft.timestamp, records, is_control))
        offset += len(records)

    head: list[tuple[bytes | None, bytes]] = [
        control_record(SNAPSHOT_HEADER, {"lastContainedLogTimestamp": raft.timestamp})
    ]
    if raft.version:
        head.append(control_record(KRAFT_VERSION, {"kRaftVersion": raft.version}))
        head.append(control_record(KRAFT_VOTERS, {"voters": raft.voters}))
    add(head, is_control=True)
    pending, size = list[tuple[bytes | None, bytes]](), 0
    for record in image.records():
        value = _encoded(record)
        pending.append((None, value))
        count, size = count + 1, size + len(value)
        if size >= _BATCH_BYTES:
            add(pending)
            pending, size = [], 0
    if pending:
        add(pending)
    add([control_record(SNAPSHOT_FOOTER, {})], is_control=True)
    return bytes(out), count


def _encoded(record: FramedRecord) -> bytes:
    try:
        return framed(record, CLUSTER_METADATA)
    except ValueError as error:
        raise KsegError(f"a {CLUSTER_METADATA[record.api_key].name} cannot be written: {error}") from error


def _broker_id_remark(node: int, image: MetadataImage, raft: Raft) -> str:
    """Returns the remark for a controller that takes the id of a broker. Raises KsegError if that broker is known to be
    no controller."""
    controllers = {*image.controllers, *(voter["voterId"] for voter in raft.voters)}
    if node in image.brokers and controllers and node not in controllers:
        raise KsegError(f"{node} is the id of a broker of this cluster: a controller needs an id of its own")
    return (
        f"{node} is also the id of a broker: it must be broker and controller in one process, with the new log "
        f"directory as its metadata.log.dir and no {METADATA_PARTITION} in the others"
    )


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
    def files(self) -> dict[str, bytes]:
        """The new files by name: the snapshot, and the empty log behind it."""
        return {snapshot_name(self.offset, self.epoch): self.data, segment_stem(self.offset) + LOG: b""}

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
    topics: "DirectoryTopics | None" = None,
) -> NewSnapshot:
    """Makes a snapshot of all records below ``end`` that can be read and replayed. ``voters``: of a new quorum, whose
    controllers are not yet registered; None: the last ones. ``topics``: those of log directories, for what the log
    lacks; then ``directory`` may be None. Raises KsegError."""
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
    lost = [topic for topic in image.topics.values() if not topic.partitions]
    for topic in lost:
        left_out.append(KsegError(f"{where}: the partitions of topic {topic.name} ({topic.topic_id}) are unknown"))
        del image.topics[topic.topic_id]
    if voters is None and raft.version and not raft.voters:
        raise KsegError(f"{where}: no record of the voters can be read: only --new-quorum can bring the log back")
    remarks = [] if topics is None else [*topics.remarks, *_copies(topics.directories) * (not files)]
    if voters is not None:
        node = voters[0]["voterId"]
        if node in image.brokers or (topics is not None and node in topics.nodes):
            remarks = [*remarks, _broker_id_remark(node, image, raft)]
        image.controllers.clear()
        raft = raft._replace(voters=voters)
    offset, epoch = raft.offset + MARGIN_OFFSETS, raft.epoch + 1
    if offset > LAST_OFFSET or epoch > _LAST_EPOCH:
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


def _above_all(raft: Raft, directories: list[str], image: MetadataImage, has_copy: bool) -> Raft:
    """Returns the offset and epoch that no file of the log directories exceeds, nor probably any of other nodes."""
    for path in directories:
        inside = os.path.join(path, METADATA_PARTITION)
        if trees.isdir(inside):
            other = read_raft(inside, list_segments(inside))
            raft = raft._replace(
                offset=max(raft.offset, other.offset), epoch=max(raft.epoch, other.epoch),
                timestamp=max(raft.timestamp, other.timestamp),
            )  # fmt: skip
    if has_copy:
        return raft
    version = int((image.metadata_version or 0) >= SAFE_LEVEL)
    return raft._replace(offset=raft.offset + LOST_OFFSETS, epoch=raft.epoch + LOST_EPOCHS, version=version)


def _copies(directories: list[str]) -> list[str]:
    """Returns a sentence for each log directory that has a copy of the metadata log."""
    paths = (os.path.join(directory, METADATA_PARTITION) for directory in directories)
    return [f"{path}: if it can be read, give it as PATH, to keep settings" for path in paths if trees.isdir(path)]


class MetadataSnapshotPlanner(Planner):
    """Plans ``recover --metadata-snapshot``: files of the old log go, quorum-state and partition.metadata stay."""

    command = "recover --metadata-snapshot"

    def __init__(self, options: RecoverOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._options = options

    def plan_partition(self, directory: str, known: Known) -> Plan:
        if os.path.basename(os.path.abspath(directory)) != METADATA_PARTITION:
            raise RequestError(f"{directory}: --metadata-snapshot is for {METADATA_PARTITION}, or its log directory")
        if is_only_voter(directory, self._options.server) is False:
            raise KsegError(
                f"{directory}: by the voters of the log, this node is not the only one: plain `kseg recover` cuts it "
                "at the damage, and the node fetches the rest; --new-quorum makes a new one if all are lost"
            )
        metas = _metas(self._options.topics_from)
        if metas:
            own = os.path.dirname(os.path.abspath(directory))
            _cluster_id({own: properties_of(own), **metas})
        topics = DirectoryTopics(metas) if metas else None
        snapshot = new_snapshot(directory, self._options.as_of, topics=topics)
        snapshot.report(self.reporter.warning)
        self.damage_remains |= bool(snapshot.left_out)
        plan = Plan(directory, facts=snapshot.facts(directory))
        for name, data in snapshot.files.items():
            plan.write(name, [data], f"a snapshot of {snapshot.said}" if data else "the log goes on at the snapshot")
        for name in sorted(trees.listdir(directory)):
            is_old = name == LEADER_EPOCHS or (name[:1].isdigit() and is_part_of_log(name))
            if is_old and name not in snapshot.files:
                size = trees.getsize(os.path.join(directory, name))
                plan.delete(name, "the new snapshot replaces it", [Removed(0, size, "replaced")] if size else [])
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        path = os.path.join(directory, METADATA_PARTITION)
        if not trees.isdir(path):
            raise PathError(f"{directory}: holds no {METADATA_PARTITION}")
        yield from self.planned(
            [path] if METADATA_PARTITION not in done else [], lambda at: self.plan_partition(at, known)
        )


@dataclass(frozen=True, slots=True)
class NewQuorum:
    """A request for the log directory of a new, single controller. ``source``: a node's log directory or its
    __cluster_metadata-0, None if no copy is left; ``topics_from``: log directories whose topics are added."""

    node: int
    listener: Listener
    source: str | None = None
    topics_from: tuple[str, ...] = ()
    end: int | None = None

    def write(self, change: ChangeOptions, warn: Callable[[str], None]) -> tuple[Plan, NewSnapshot]:
        """Writes the directory, whole or not at all. Raises KsegError."""
        output, directory = str(change.output), None
        if self.source is not None:
            directory = _metadata_partition(self.source)
            if directory is None and not self.topics_from:
                raise PathError(f"{self.source}: holds no {METADATA_PARTITION}")
            if directory is None:
                warn(f"{self.source}: holds no {METADATA_PARTITION}: all is taken from the log directories")
        of_copy = [] if directory is None else [os.path.dirname(os.path.abspath(directory))]
        of_topics = _metas(self.topics_from)
        metas = _metas([*of_copy, *self.topics_from])
        cluster_id, read = _cluster_id(metas), list(metas)
        _check_places(output, read, change, warn)
        topics = DirectoryTopics(of_topics) if of_topics else None
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        endpoint = {"name": self.listener.name, "host": self.listener.host, "port": self.listener.port}
        voter = {
            "voterId": self.node, "voterDirectoryId": directory_id, "endpoints": [endpoint],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }  # fmt: skip
        snapshot = new_snapshot(directory, self.end, [voter], topics)
        properties = f"version=1\ncluster.id={cluster_id}\nnode.id={self.node}\ndirectory.id={directory_id}\n".encode()
        files = {f"{METADATA_PARTITION}/{name}": data for name, data in snapshot.files.items()}
        files[META_PROPERTIES] = properties
        steps = [Step(CREATE, name, _reason(name, snapshot), None, len(data)) for name, data in files.items()]
        plan = Plan(output, steps, facts=snapshot.facts(output))
        with new_directories(output, change.takes_lock, change.is_dry, model=read[0]) as made:
            if not change.is_dry:
                folder = made.add(METADATA_PARTITION, model=directory or read[0])
                for name, data in snapshot.files.items():
                    Disk().write_file(os.path.join(folder, name), data, folder)
                Disk().write_file(os.path.join(made.folder, META_PROPERTIES), properties, made.folder)
        return plan, snapshot


def _metadata_partition(source: str) -> str | None:
    """Returns the metadata partition that a PATH names or holds, None if it holds none. Raises PathError."""
    if not trees.isdir(source):
        raise PathError(f"{source}: is no directory: give a log directory")
    inside = os.path.join(source, METADATA_PARTITION)
    if trees.isdir(inside):
        return inside
    return source if os.path.basename(os.path.abspath(source)) == METADATA_PARTITION else None


def _metas(directories: Iterable[str]) -> dict[str, MetaProperties]:
    """Returns the properties of each log directory once. Raises PathError."""
    paths = {os.path.realpath(path): path for path in directories}
    return {path: properties_of(path) for path in paths.values()}


def _cluster_id(metas: dict[str, MetaProperties]) -> str:
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


def _check_places(output: str, log_directories: list[str], change: ChangeOptions, warn: Callable[[str], None]) -> None:
    """Raises KsegError for an output that a broker or an earlier run uses, and for sources that a broker uses."""
    if trees.lexists(output) and trees.listdir(output):
        raise PathError(f"{output}: is not empty: a new quorum needs a log directory of its own")
    around = os.path.dirname(os.path.realpath(output))
    while around != os.path.dirname(around):
        if trees.lexists(os.path.join(around, META_PROPERTIES)):
            raise PathError(f"{output}: is inside the log directory {around}, with which no broker would start then")
        around = os.path.dirname(around)
    for path in filter(is_locked, log_directories):
        text = f"{path}: a running broker, or another kseg, holds the log directory"
        if change.takes_lock and not change.is_dry:
            raise BrokerRunningError(f"{text}: stop it, or use --no-lock; nothing was written")
        warn(f"{text}: what it writes from now on is not in the new one")


def _reason(name: str, snapshot: NewSnapshot) -> str:
    if name == META_PROPERTIES:
        return "the node of the new quorum"
    return f"a snapshot of {snapshot.said}" if name.endswith(CHECKPOINT) else "the log goes on at the snapshot"
