"""The topics of a cluster whose metadata are lost, as its log directories have them.

    name and number     the name of the partition directory
    topic id            partition.metadata
    replicas            node.id and directory.id in meta.properties
    leader epoch        leader-epoch-checkpoint and the last batches
    producer ids        producer snapshots, the batches behind them, __transaction_state

Everything else that only the metadata had is lost. This must have none of three consequences: batches with an older
leader epoch than those before them, a producer id that is assigned twice, and retention by default settings. So the
controller elects the leader of each partition, with a new epoch; the next producer id is far above all known ones; and
topics get settings under which nothing is deleted. Sources: PartitionRegistration, ReplicationControlManager,
ProducerIdControlManager, the topics that KafkaApis creates, of Kafka 4.4.0.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.formats.schema import ZERO_UUID
from kseg.formats.suffixes import CHECKPOINT, LOG, SNAPSHOT
from kseg.logdir.coordinators import topic_id_at, transaction_states
from kseg.logdir.log_directory import METADATA_PARTITION, checkpoint_offsets, is_moved
from kseg.logdir.metadata_image import (
    DIRECTORIES_SINCE,
    METADATA_VERSIONS,
    TOPIC_RESOURCE,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kseg.logdir.metadata_replay import snapshot_image
from kseg.quantities import plural
from kseg.recovery.planner import has_records
from kseg.segment.files import (
    BOOTSTRAP,
    LAST_OFFSET,
    METADATA_TOPIC,
    file_names,
    is_uuid,
    list_partitions,
    list_segments,
    parse_partition_name,
)
from kseg.segment.paths import some
from kseg.segment.reader import Run, open_segment
from kseg.segment.seek import seek_offset
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, read_leader_epochs
from kseg.sidefiles.meta_properties import MetaProperties
from kseg.sidefiles.partition_metadata import PARTITION_METADATA
from kseg.sidefiles.producer_state import ProducerSnapshot
from kseg.sidefiles.text_files import MAX_TEXT_BYTES
from kseg.stores import trees
from kseg.stores.regular_files import read_regular
from kseg.stores.remote.recognition import is_topic

SAFE_LEVEL = 21
"""metadata.version 3.9-IV0: the first one with dynamic voters; each release from 3.9 on knows it."""
PRODUCER_ID_MARGIN = 1_000_000_000
MAX_MISSING = 100_000
"""Partitions in no log directory for which a cluster is still made."""
_LARGEST_PRODUCER_ID = 1 << 62
_LAST_NUMBER = (1 << 31) - 1
_LAST_EPOCH = _LAST_NUMBER - 1
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
    "-stray": "brokers set them aside; kseg recover --undelete restores their names, then they are taken",
    "-stray, without records": "create their topics, or partitions, again",
    "-delete": "their topics were deleted; kseg recover --undelete restores them",
    "-future": "copies that a broker had not completed",
}
_EMPTY = ", without records"


class ReplicaEnd(NamedTuple):
    """How far a replica's log reaches, and the largest producer id that its broker knows."""

    epoch: int = 0
    offset: int = 0
    producer_id: int = -1


@dataclass(slots=True)
class PartitionReplica:
    """A partition directory, and the broker and log directory that it belongs to."""

    path: str
    node: int
    directory_id: str
    end: ReplicaEnd


@dataclass(slots=True)
class _Topic:
    """The replicas of a topic's partitions by topic id (None: unknown) and partition number."""

    name: str
    by_id: dict[str | None, dict[int, list[PartitionReplica]]] = field(default_factory=dict)

    def chosen_id(self) -> str | None:
        """Returns the id that most directories have; of several the newest."""
        return max(
            (topic_id for topic_id in self.by_id if topic_id is not None),
            key=lambda topic_id: (len(self.paths(topic_id)), max(map(_written_ns, self.paths(topic_id)))),
            default=None,
        )

    def paths(self, topic_id: str | None) -> list[str]:
        return [replica.path for replicas in self.by_id[topic_id].values() for replica in replicas]


def _written_ns(path: str) -> int:
    with suppress(OSError):
        return trees.status(os.path.join(path, PARTITION_METADATA)).st_mtime_ns
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
        self._topics: dict[str, _Topic] = {}
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
        directory_id = directory_id if is_uuid(directory_id) else ZERO_UUID
        moved: Counter[str] = Counter()
        for path in list_partitions(directory):
            name = os.path.basename(path)
            topic, number = parse_partition_name(name) or ("", 0)
            if is_moved(name):
                moved[name[name.rindex("-") :] + _EMPTY * (not has_records(path))] += 1
            elif topic == METADATA_TOPIC:
                continue
            elif name != f"{topic}-{number}" or number > _LAST_NUMBER or not is_topic(topic):
                self._leave(path, "is no name of a partition")
            elif trees.islink(path):
                self._leave(path, "is a link out of the log directory: give the log directory that holds its target")
            else:
                end = replica_end(path, self._scratch)
                self._highest_producer_id = max(self._highest_producer_id, end.producer_id)
                partitions = self._topics.setdefault(topic, _Topic(topic)).by_id.setdefault(topic_id_at(path), {})
                partitions.setdefault(number, []).append(PartitionReplica(path, node, directory_id, end))
        for suffix, count in sorted(moved.items()):
            if suffix not in _MOVED:
                continue
            text = f"{directory}: {plural(count, 'directory ends', 'directories end')} in {suffix}: {_MOVED[suffix]}"
            if suffix.startswith("-stray"):
                self.left_out.append(KsegError(text))
            else:
                self.remarks.append(text)
        self._highest_producer_id = max([self._highest_producer_id, *_usable(transaction_states(directory))])
        self._compacted |= {topic for topic, _ in checkpoint_offsets(os.path.join(directory, CLEANER_OFFSETS))}
        self._read_level(directory)

    def _leave(self, path: str, why: str) -> None:
        self.left_out.append(KsegError(f"{path}: {why}"))

    def _read_level(self, directory: str) -> None:
        """Takes metadata.version, with the features beside it, from a bootstrap snapshot."""
        for path in (
            os.path.join(directory, BOOTSTRAP),
            os.path.join(directory, METADATA_PARTITION, f"{0:020}-{0:010}{CHECKPOINT}"),
        ):
            with suppress(KsegError):
                image = snapshot_image(path)
                if image.metadata_version is not None and (not self._level or self._level[0] < image.metadata_version):
                    self._level = image.metadata_version, image.features

    def add_to(self, image: MetadataImage) -> None:
        """Adds the topics and partitions that the image lacks. Raises KsegError if too many are in no directory."""
        if image.metadata_version is None:
            level, image.features = self._level or (SAFE_LEVEL, {})
            source = "as at the time of format" if self._level else "as each release from 3.9 on knows it"
            has_several = max(self.nodes.values(), default=0) > 1
            image.metadata_version = max(level, DIRECTORIES_SINCE) if has_several else level
            self.remarks.append(
                f"metadata.version is {METADATA_VERSIONS[image.metadata_version]}, {source}: raise it with "
                "kafka-features.sh upgrade --release-version"
            )
        missing, new = 0, list[str]()
        for name, topic in sorted(self._topics.items()):
            topic_id = image.topic_ids.get(name) or topic.chosen_id()
            if topic_id is None:
                for path in topic.paths(None):
                    self._leave(path, "no partition.metadata has the topic id; kseg recover --topic-id UUID writes one")
                continue
            self._check_ids(topic, topic_id)
            partitions = topic.by_id.get(topic_id, {})
            for number, replicas in topic.by_id.get(None, {}).items():
                partitions.setdefault(number, []).extend(replicas)
            known = image.topics.get(topic_id)
            if known is None:
                known = image.topics[topic_id] = TopicImage(name, topic_id)
                image.topic_ids[name] = topic_id
                image.configs.setdefault((TOPIC_RESOURCE, name), dict(_SETTINGS.get(name, _KEEPS_ALL)))
                new.append(name)
            missing += self._add_partitions(known, partitions, MAX_MISSING - missing)
        next_id = max(self._highest_producer_id + 1, image.producer_ids.get("next", 0))
        image.producer_ids["next"] = next_id + PRODUCER_ID_MARGIN
        if not image.topics:
            lacking = f"no partition of a topic is in {', '.join(self.directories)}"
            raise KsegError("; ".join([lacking, *map(str, self.left_out[:1])]))
        self._tell_of_settings([name for name in new if name not in _SETTINGS])

    def _tell_of_settings(self, topics: list[str]) -> None:
        if not topics:
            return
        self.remarks.append(
            f"the settings of {plural(len(topics), 'topic is', 'topics are')} lost, and with the metadata log ACLs, "
            "quotas and credentials: brokers delete no records of these topics until cleanup.policy, retention.ms and "
            "retention.bytes are set again"
        )
        if compacted := sorted(self._compacted.intersection(topics)):
            self.remarks.append(f"compacted until now: {some(compacted, _MAX_NAMES)}")

    def _check_ids(self, topic: _Topic, topic_id: str) -> None:
        for other in sorted(other for other in topic.by_id if other not in (None, topic_id)):
            for path in topic.paths(other):
                self._leave(path, f"it has topic id {other}, topic {topic.name} has {topic_id}: it will become -stray")
        for path in topic.paths(None) if None in topic.by_id else ():
            text = f"has no valid partition.metadata: kseg recover --topic-id {topic_id} must write it before a start"
            self._leave(path, text)

    def _add_partitions(self, topic: TopicImage, found: dict[int, list[PartitionReplica]], most_missing: int) -> int:
        """Adds partitions to a topic, also those that are in no directory: numbers have no holes. Returns the number
        of these."""
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
        for replica in sorted([*replicas[first:], *replicas[:first]], key=lambda each: each.end[:2], reverse=True):
            if (other := by_node.setdefault(replica.node, replica)) is not replica:
                self._leave(replica.path, f"broker {replica.node} also has {other.path}, and does not start with both")
        nodes = tuple(by_node)
        epoch = min(max(replica.end.epoch for replica in replicas), _LAST_EPOCH)
        directories = tuple(replica.directory_id for replica in by_node.values())
        return _led_by_first(nodes, directories, epoch)


def _led_by_first(nodes: tuple[int, ...], directories: tuple[str, ...], epoch: int) -> PartitionImage:
    """Returns a partition without a leader, for which only the first broker can be elected: it alone is in sync. Where
    eligible leader replicas are on, a broker whose stop was unclean is elected as the last known leader only."""
    return PartitionImage(nodes, directories, nodes[:1], (), (), _NO_LEADER, 0, epoch, 0, last_known_elr=nodes[:1])


def replica_end(path: str, scratch: Scratch) -> ReplicaEnd:
    """Returns how far the log of a partition directory reaches; damaged bytes at its end do not count. Reads no more
    than a broker that starts after an unclean stop: what lies behind the newest producer snapshot."""
    epoch = offset = 0
    snapshot, producer_id = -1, -1
    with suppress(OSError):
        epochs = read_leader_epochs(read_regular(os.path.join(path, LEADER_EPOCHS), MAX_TEXT_BYTES))
        epoch = max((entry.epoch for entry in epochs if isinstance(entry, EpochEntry)), default=0)
    with suppress(KsegError):
        if newest := max(filter(_SNAPSHOT_NAME.fullmatch, file_names(path)), default=""):
            snapshot = int(newest.removesuffix(SNAPSHOT))
            producer_id = max(_usable(_producers_in(os.path.join(path, newest))), default=-1)
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
    return ReplicaEnd(epoch, min(offset, LAST_OFFSET), producer_id)


def _producers_in(path: str) -> Iterator[int]:
    """Yields the producer ids of a snapshot that a broker takes."""
    with suppress(OSError):
        snapshot = ProducerSnapshot(read_regular(path, MAX_TEXT_BYTES))
        if snapshot.kafka_refusal() is None:
            yield from (entry.producer_id for entry in snapshot)


def _usable(producer_ids: Iterable[int]) -> list[int]:
    """Filters ids to those that leave room for later ones."""
    return [producer_id for producer_id in producer_ids if producer_id < _LARGEST_PRODUCER_ID]


def _ranges(numbers: list[int], most: int = 10) -> str:
    """Returns rising numbers as text, such as "0, 2 to 4", shortened behind ``most`` ranges."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in ranges[:most]]
    return ", ".join(shown) + ", ..." * (len(ranges) > most)
