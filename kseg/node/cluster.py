"""The nodes of one cluster that were given, and what no node tells alone: whose copy of a partition has which records,
who may lead it by the newest metadata, and what is truncated if one of them does.

A follower truncates to the end of the largest leader epoch that it and its leader have in common. Only replicas in sync
are elected, and eligible ones if none is in sync. Sources: LeaderEpochFileCache, AbstractFetcherThread,
PartitionChangeBuilder of Kafka 4.4.0; KIP-101, KIP-279, KIP-966.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.node.cluster_metadata import TopicSettings
from kseg.node.log_directory import leader_epochs_at, log_extent, topic_id_at
from kseg.node.metadata_image import PartitionImage
from kseg.node.node import Node, newest_metadata
from kseg.releases.metadata import ELR_VERSION
from kseg.segment.files import LAST_OFFSET, SegmentFile, between, list_segments
from kseg.segment.items import RecordBatch
from kseg.segment.reader import open_segment
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, LOG_STARTS, EpochEntry
from kseg.stores.place import Place


class LogCopy(NamedTuple):
    """A node's copy of a log. ``path``: None if no disk of the node has it, which counts as an empty log; ``epochs``:
    where each leader epoch begins that has records; ``high_watermark``: None if no checkpoint has it; ``was_clean``:
    whether the last stop was, so that the high watermark is the last one."""

    node: int
    path: str | None
    start: int = 0
    end: int = 0
    epochs: tuple[EpochEntry, ...] = ()
    high_watermark: int | None = None
    was_clean: bool = False

    @property
    def epoch(self) -> int | None:
        """The leader epoch of the last records; None if there are none, or they have no epochs."""
        return self.epochs[-1].epoch if self.epochs else None

    def end_of(self, epoch: int) -> int:
        """Returns the offset after the last record of an epoch or an earlier one."""
        return next((entry.start_offset for entry in self.epochs if entry.epoch > epoch), self.end)

    def agrees_to(self, other: "LogCopy") -> int:
        """Returns the offset up to which the two are the same: where a follower with one truncates it if the other
        leads."""
        common = {entry.epoch for entry in self.epochs} & {entry.epoch for entry in other.epochs}
        if common:
            return min(self.end_of(max(common)), other.end_of(max(common)))
        first, end = max(self.start, other.start), min(self.end, other.end)
        return first if self.epochs and other.epochs and first < end else end


class LosableRange(NamedTuple):
    """Offsets ``first`` to ``last`` of a copy, which go if another one leads.

    ``committed``: the offset after the last one that was committed for sure; ``is_parted``: the leader has other
    records there.
    """

    copy: LogCopy
    first: int
    last: int
    committed: int
    is_parted: bool

    @property
    def is_certain(self) -> bool:
        """Whether committed records are among them."""
        return self.committed > self.first


class ClusterPartition(NamedTuple):
    """A partition of the newest metadata, and the copies of the nodes that were given. ``is_unclean``: its topic allows
    unclean elections."""

    topic: str
    number: int
    topic_id: str
    image: PartitionImage
    copies: tuple[LogCopy, ...]
    is_unclean: bool

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def may_lead(self) -> tuple[int, ...]:
        """The nodes of which one is elected: those in sync, else the eligible ones, else the last leader if it is
        known."""
        last = self.image.last_known_elr
        return self.image.may_lead or (last if len(last) == 1 else ())

    @property
    def leaders(self) -> list[LogCopy]:
        """The copies of nodes that may lead."""
        return [copy for copy in self.copies if copy.node in self.may_lead]

    def losses(self, leader: LogCopy) -> list[LosableRange]:
        """Returns what the others have that they truncate, or that is not served, if one leads."""
        found = []
        for copy in self.copies:
            agreed = copy.agrees_to(leader)
            first = max(agreed, copy.start)
            if copy is not leader and first < copy.end:
                is_parted = agreed < leader.end
                found.append(LosableRange(copy, first, copy.end - 1, min(self._committed(copy), copy.end), is_parted))
        return found

    def _committed(self, copy: LogCopy) -> int:
        """Returns the offset below which all records of a copy were committed, by the high watermarks of all copies."""
        bounds = [0]
        for other in self.copies:
            if other.high_watermark is not None:
                agreed = other.agrees_to(copy)
                # A copy that has lost its end still knows how far it was committed.
                bounds.append(other.high_watermark if agreed == other.end else min(other.high_watermark, agreed))
        return max(bounds)


class Cluster:
    """Nodes of one cluster, each given once. ``extents``: base and end offset of logs that are known, by path."""

    def __init__(self, nodes: Iterable[Node], extents: Mapping[str, tuple[int, int]]) -> None:
        self.nodes = {
            node.number: node for node in sorted(nodes, key=lambda node: node.number or 0) if node.number is not None
        }
        self._extents, self._scratch, self._topic_id = extents, Scratch(), cache(topic_id_at)

    def extent_of(self, path: str) -> tuple[int, int] | None:
        """Returns base and end offset of a log. As `log_extent`."""
        return self._extents[path] if path in self._extents else log_extent(path, self._scratch)

    @property
    def cluster_id(self) -> str:
        return next((node.cluster_id for node in self.nodes.values() if node.cluster_id), "")

    @cached_property
    def metadata(self) -> TopicSettings | None:
        """The newest metadata; None if there are none, or records of partitions are missing or cannot be read."""
        found = newest_metadata(self.nodes.values())
        return found if found is not None and found.knows_partitions else None

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are on: then a broker whose last stop was unclean loses its place in sync
        when it registers (ReplicationControlManager.handleBrokerShutdown)."""
        return self.metadata is not None and self.metadata.image.features.get(ELR_VERSION, 0) >= 1

    def other_topics(self) -> Iterator[tuple[int, str, str, str]]:
        """Yields the copies of a topic that was deleted or is not yet known: node, path, the topic id of the copy, and
        the id that the newest metadata has for the topic's name."""
        if self.metadata is None:
            return
        for number, paths in self._paths.items():
            for name, path in paths.items():
                wanted = self.metadata.ids.get(name.rpartition("-")[0])
                if wanted is not None and (found := self._topic_id(path)) is not None and found != wanted:
                    yield number, path, found, wanted

    @cached_property
    def _paths(self) -> dict[int, dict[str, str]]:
        """The partition directories of each node by name; of several the one that the metadata assign."""
        found: dict[int, dict[str, str]] = {}
        for number, node in self.nodes.items():
            paths = found.setdefault(number, {})
            for one in node.directories:
                for name in one.directories:
                    place = Place(one.path) / name
                    if name not in paths or self._is_assigned(node, one.meta and one.meta.directory_id, place):
                        paths[name] = place
        return found

    @staticmethod
    def _is_assigned(node: Node, directory_id: str | None, path: str) -> bool:
        number = node.partition(path).number
        return number is not None and node.assigned_id(node.partition(path).topic_id, number) == directory_id

    def topic_ids(self, number: int) -> dict[str, str]:
        """Returns the path of a partition of each topic of which a node has any, by the topic's id."""
        found = ((self._topic_id(path), path) for path in self._paths[number].values())
        return {topic_id: path for topic_id, path in found if topic_id is not None}

    def partitions(self) -> Iterator[ClusterPartition]:
        """Yields the partitions of the newest metadata of which several nodes that were given are replicas."""
        metadata = self.metadata
        if metadata is None:
            return
        names = {topic_id: name for name, topic_id in metadata.ids.items()}
        for (topic_id, number), image in sorted(metadata.partitions.items()):
            topic = names.get(topic_id)
            given = [node for node in image.replicas if node in self.nodes]
            if topic is None or len(given) < 2:
                continue
            copies = [copy for node in given if (copy := self._copy(node, topic, number, topic_id, image)) is not None]
            if len(copies) > 1:
                is_unclean = metadata.setting(topic, "unclean.leader.election.enable") == "true"
                yield ClusterPartition(topic, number, topic_id, image, tuple(copies), is_unclean)

    def _copy(self, number: int, topic: str, index: int, topic_id: str, image: PartitionImage) -> LogCopy | None:
        """Returns a node's copy; None if it is another topic's, cannot be read, or may lie on a disk that is not
        given."""
        node, path = self.nodes[number], self._paths[number].get(f"{topic}-{index}")
        if path is None:
            assigned = image.directories[image.replicas.index(number)]
            return LogCopy(number, None) if node.is_whole or assigned in node.directory_ids else None
        if self._topic_id(path) not in (None, topic_id):
            return None
        directory = node.directory_at(Place(path).parent or ".")
        offsets = {} if directory is None else directory.offsets
        marks = offsets.get(HIGH_WATERMARKS, {}).get((topic, index))
        was_clean = directory is not None and directory.was_clean
        try:
            copy = log_copy(number, path, self.extent_of(path))
        except (KsegError, OSError):
            return None  # reported by the check of the partition
        start = max(copy.start, offsets.get(LOG_STARTS, {}).get((topic, index), 0))
        return copy._replace(start=start, high_watermark=marks, was_clean=was_clean)


def log_copy(node: int, path: str, extent: tuple[int, int] | None) -> LogCopy:
    """Returns a node's copy of a log with its extent, without high watermark. Raises KsegError if it cannot be read."""
    return LogCopy(node, path) if extent is None else LogCopy(node, path, *extent, _epochs_at(path, extent[1]))


def _epochs_at(path: str, end: int) -> tuple[EpochEntry, ...]:
    """Returns the leader epochs of a log that ends at ``end``, by its checkpoint as a broker loads it; by its batches
    if there is none that can be read."""
    if known := leader_epochs_at(path):
        return tuple(entry for entry in known if entry.start_offset < end)
    found: list[EpochEntry] = []
    for batch in batches_between(path, 0, LAST_OFFSET):
        epoch = batch.header.partition_leader_epoch
        if epoch >= 0 and (not found or epoch > found[-1].epoch):
            found.append(EpochEntry(epoch, batch.base_offset))
    return tuple(found)


_MAX_COUNTED_SEGMENTS = 16
"""Records of more segments are not counted: reading the headers takes too long."""


def count_records(path: str, first: int, last: int) -> int | None:
    """Returns the number of records from offset ``first`` to ``last``; None if they are in too many segments, or cannot
    be read."""
    count = 0
    try:
        if len(logs_between(path, first, last)) > _MAX_COUNTED_SEGMENTS:
            return None
        for batch in batches_between(path, first, last):
            if batch.is_control:
                continue
            if first <= batch.base_offset and batch.last_offset <= last:
                count += batch.header.record_count
            else:
                count += sum(first <= record.offset <= last for record in batch)
    except KsegError:
        return None
    return count


def logs_between(path: str, first: int, last: int) -> list[SegmentFile]:
    """Returns the .log files of a partition directory that may hold offsets of a range. Raises PathError."""
    return between([file for file in list_segments(path) if file.kind == LOG], first, last)


def batches_between(path: str, first: int, last: int) -> Iterator[RecordBatch]:
    """Yields the intact batches that have offsets of a range. Raises KsegError."""
    for file in logs_between(path, first, last):
        with open_segment(file) as reader:
            for item in reader:
                if isinstance(item, RecordBatch) and item.is_valid and item.base_offset <= last:
                    if item.last_offset >= first:
                        yield item
