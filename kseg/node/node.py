"""The nodes whose log directories are among the PATHs of a command, and what a node knows about its partitions.

A node is all its disks: its metadata log, its coordinators' logs and its checkpoints lie on some of them and are facts
about the partitions on all. What no disk tells is unknown, never Kafka's default. Sources: LogManager, LogConfig and
LogCleanerManager of Kafka 4.4.0; KIP-858.
"""

import base64
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.node.log_directory import (
    CLEANER_SETTINGS,
    COMPACTED_TOPICS,
    METADATA_PARTITION,
    BrokerState,
    LogDirectory,
    is_compacted,
    is_moved,
    longest_copy,
    read_log_directory,
    state_by_name,
    topic_id_at,
)
from kseg.node.paths import configuration_at, expanded
from kseg.node.server_properties import CHECKPOINT, DEFAULT, DEFAULTS, NAME, SERVER, TOPIC, UNKNOWN, ServerProperties
from kseg.segment.files import (
    METADATA_TOPIC,
    directory_name,
    is_uuid,
    list_segments,
    own_partitions,
    parse_partition_name,
    topic_of_place,
)
from kseg.segment.paths import roots_of
from kseg.sidefiles import checkpoints
from kseg.sidefiles.text_files import META_PROPERTIES, MetaProperties, integer_setting
from kseg.stores.place import Place

if TYPE_CHECKING:
    from kseg.node.cluster_metadata import TopicSettings
    from kseg.node.coordinators import Coordinators
    from kseg.node.metadata_image import PartitionImage

POLICY, INTERVAL = "cleanup.policy", "index.interval.bytes"
_RESERVED_IDS = 100
"""Uuids below this number mean something else than a directory (DirectoryId)."""


class Policy(NamedTuple):
    """The cleanup.policy of a partition; ``text`` None if it is unknown.

    ``source``: where it comes from; ``is_known``: false for the broker's own setting if the topic may override it.
    """

    text: str | None
    source: str
    is_known: bool = True

    @property
    def is_compacted(self) -> bool | None:
        """Whether it includes compact, None if that is unknown."""
        return None if self.text is None else is_compacted(self.text)


class Partition:
    """A partition directory and what its node knows about it. ``topic``, ``number``: None if its name is none of a
    partition; ``directory``: the log directory it lies in, None if it lies in none."""

    def __init__(self, path: str, node: "Node", directory: LogDirectory | None) -> None:
        self.path, self.node = path, node
        self.directory = directory if directory is not None and directory.is_marked else None
        self.name = directory_name(path)
        self.place = parse_partition_name(self.name)
        """Topic and number."""
        self.topic: str | None = self.place[0] if self.place else None
        self.number: int | None = self.place[1] if self.place else None

    @property
    def is_in_metadata(self) -> bool:
        """Whether the node's metadata log has the topic."""
        return self.node.topics is not None and self.topic in self.node.topics.ids

    @property
    def is_of_broker(self) -> bool:
        """Whether it lies in a log directory that a broker has used."""
        return self.directory is not None and self.directory.is_of_broker

    @property
    def topic_id(self) -> str | None:
        """The topic's id by the metadata log; "" if it does not have the topic, None if that is not known."""
        topics = self.node.topics
        if topics is None or self.topic is None:
            return None
        return topics.ids.get(self.topic, None if topics.lacking else "")

    @property
    def assignment(self) -> "PartitionImage | None":
        """The partition in the metadata log, None if that does not have it."""
        topics, topic_id = self.node.topics, self.topic_id
        return topics.partitions.get((topic_id, self.number or 0)) if topics is not None and topic_id else None

    def own_setting(self, name: str) -> str | None:
        """Returns a setting of the topic, or the cluster's default, by the metadata log; None if neither is known."""
        topics = self.node.topics
        if topics is None or self.topic is None or self.topic not in topics.ids:
            return None
        return topics.setting(self.topic, name)

    def setting(self, name: str) -> str | None:
        """Returns a setting of the topic, the cluster, or the broker's file; None if none of them sets it."""
        text, source = self.setting_and_source(name)
        return None if source == DEFAULT else text

    def setting_and_source(self, name: str) -> tuple[str | None, str]:
        """Returns a setting and its source: TOPIC, SERVER, or DEFAULT; UNKNOWN if the broker's file is not known."""
        if (text := self.own_setting(name)) is not None:
            return text, TOPIC
        if (server := self.node.server) is None:
            return None, UNKNOWN
        text = server.setting(name)
        return (DEFAULTS.get(name), DEFAULT) if text is None else (text, SERVER)

    @property
    def policy(self) -> Policy:
        """The cleanup.policy. An empty one counts: neither compact nor delete (LogConfig)."""
        text, source = self.setting_and_source(POLICY)
        if self.is_in_metadata:
            return Policy(DEFAULTS[POLICY], DEFAULT) if text is None else Policy(text, source)
        if self.place in self.node.cleaner_offsets:
            return Policy("compact", CHECKPOINT)
        if self.topic in COMPACTED_TOPICS:
            return Policy("compact", NAME)
        return Policy(text, SERVER, False) if source == SERVER else Policy(None, UNKNOWN, False)

    def why_unknown(self) -> str:
        """Returns why the cleanup.policy is unknown, as a sentence."""
        because = self.node.elsewhere() or "no metadata log here has its topic"
        return f"its cleanup.policy is unknown: {because}"

    @property
    def interval_bytes(self) -> tuple[int | None, str]:
        """index.interval.bytes, and its source in words; None if unknown, or not a number that Kafka accepts."""
        found, server = _byte_count(self.own_setting(INTERVAL)), self.node.server
        if found is not None or server is None:
            return found, f"as {METADATA_PARTITION} has it"
        return _byte_count(server.setting(INTERVAL)), server.source

    @property
    def is_compacted(self) -> bool:
        """Whether the log cleaner has been there, or is to come."""
        return bool(self.policy.is_compacted) or self.place in self.node.cleaner_offsets

    @property
    def state(self) -> BrokerState:
        """What the node has recorded about the partition; without offsets for -delete, -future, -stray."""
        directory, node = self.directory, self.node
        if directory is None:
            return state_by_name(self.topic)
        if self.place is None or is_moved(self.name):
            return BrokerState(
                was_clean=directory.was_clean, is_known=True, is_kraft=node.is_kraft, owner=directory.owner
            )
        if self.topic == METADATA_TOPIC:
            # KafkaRaftLog is always recovered from its beginning, as after an unclean stop.
            return BrokerState(recovery_point=0, was_clean=False, is_known=True, is_kraft=True, owner=directory.owner)
        limit, retention, compacted = (
            self.setting("max.message.bytes"), self.setting("retention.ms"), self.policy.is_compacted,
        )  # fmt: skip
        offsets = {name: directory.offsets.get(name, {}).get(self.place) for name in checkpoints.OFFSET_CHECKPOINTS}
        return BrokerState(
            offsets[checkpoints.RECOVERY_POINTS], offsets[checkpoints.HIGH_WATERMARKS],
            offsets[checkpoints.LOG_STARTS], offsets[checkpoints.CLEANER_OFFSETS],
            compacted,
            _byte_count(limit),
            self.topic_id, directory.was_clean, True, node.is_kraft,
            {name: value for name in CLEANER_SETTINGS if (value := self.setting(name)) is not None}
            if compacted else None,
            is_assigned=self._is_assigned,
            retention_ms=None if retention is None else integer_setting(retention, 64),
            owner=directory.owner,
        )  # fmt: skip

    @property
    def _is_assigned(self) -> bool | None:
        """Whether the metadata log assigns the partition to the node; None if that is not known."""
        topics, number = self.node.topics, self.node.number
        if not self.topic_id or topics is None or number is None:
            return None
        if not topics.image.brokers or not topics.knows_partitions:
            return None
        found = self.assignment
        return found is not None and number in found.replicas


def _byte_count(text: str | None) -> int | None:
    number = None if text is None else integer_setting(text, 32)
    return None if number is None or number < 0 else number


class Node:
    """The log directories of one broker or controller: all that are known. ``server``: its configuration, None if it is
    not given."""

    def __init__(self, directories: Iterable[LogDirectory], server: ServerProperties | None = None) -> None:
        self.directories, self.server = list(directories), server
        self._by_place = {os.path.realpath(one.path): one for one in self.directories}

    @cached_property
    def metadata(self) -> LogDirectory | None:
        """The log directory with the metadata log: metadata.log.dir, else the first that has it."""
        holding = [one for one in self.directories if one.holds_metadata]
        wanted = None if self.server is None else self.server.metadata_log_dir
        named = self._by_place.get(os.path.realpath(wanted)) if wanted is not None else None
        return named if named in holding else next(iter(holding), None)

    @cached_property
    def topics(self) -> "TopicSettings | None":
        """Topics, their settings and partitions by the newest metadata; None if they are on no disk that is known, or
        cannot be read."""
        if self.metadata is None:
            return None
        from kseg.node.cluster_metadata import read_topic_settings  # a segment or a partition alone needs none

        return read_topic_settings(Place(self.metadata.path) / METADATA_PARTITION)

    def is_configured(self, path: str) -> bool:
        """Whether the configuration of the node names a log directory."""
        return self.server is not None and self.server.names(path)

    @property
    def number(self) -> int | None:
        """The id of the node."""
        if self.server is not None and self.server.node_id is not None:
            return self.server.node_id
        first = self.metadata if self.metadata is not None and self.metadata.meta is not None else None
        metas = (one.meta for one in ([first] if first else self.directories) if one.meta is not None)
        return next((meta.number for meta in metas if meta.number is not None), None)

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, by the first disk that tells it."""
        return next((one.meta.cluster_id for one in self.directories if one.meta and one.meta.cluster_id), None)

    @cached_property
    def is_kraft(self) -> bool:
        """Whether the node runs without ZooKeeper."""
        return any(one.is_kraft for one in self.directories)

    @cached_property
    def cleaner_offsets(self) -> Mapping[tuple[str, int], int]:
        """The entries of all cleaner-offset-checkpoint files together, as a broker merges them: the last disk wins."""
        found: dict[tuple[str, int], int] = {}
        for one in self.directories:
            found |= one.offsets.get(checkpoints.CLEANER_OFFSETS, {})
        return found

    @cached_property
    def coordinators(self) -> "Coordinators":
        """The coordinators by all disks of the node; `Nodes` replaces them by those of the nodes of a cluster."""
        from kseg.node.coordinators import Coordinators  # few commands ask for them

        return Coordinators(one.path for one in self.directories)

    @cached_property
    def remote_copies(self) -> "Mapping[tuple[str, int], int] | None":
        """The last offset of each partition that is copied to remote storage; None if no disk tells."""
        from kseg.node.remote_partitions import copied_offsets  # few partitions have remote copies

        return copied_offsets([one.path for one in self.directories])

    @cached_property
    def is_whole(self) -> bool | None:
        """Whether all its log directories are known; None if nothing tells."""
        if self.server is not None and self.server.log_dirs:
            return {os.path.realpath(path) for path in self.server.log_dirs} <= self._by_place.keys()
        registered = self.registered_directories
        return registered <= self.directory_ids.keys() if registered else None

    @property
    def registered_directories(self) -> frozenset[str]:
        """The directory ids with which the metadata log has the node registered."""
        topics, number = self.topics, self.number
        if topics is None or number is None:
            return frozenset()
        return frozenset(topics.image.brokers.get(number, {}).get("logDirs", ()))

    @property
    def directory_ids(self) -> dict[str, LogDirectory]:
        """The log directories by their directory.id."""
        return {one.meta.directory_id: one for one in self.directories if one.meta and one.meta.directory_id}

    def assigned_id(self, topic_id: str | None, number: int) -> str | None:
        """Returns the directory.id to which the metadata log assigns the node's replica of a partition; None if it
        does not say."""
        topics, node = self.topics, self.number
        if topics is None or topic_id is None or node is None or not topics.knows_partitions:
            return None
        partition = topics.partitions.get((topic_id, number))
        if partition is None or node not in partition.replicas:
            return None
        found = partition.directories[partition.replicas.index(node)]
        return None if is_reserved_id(found) else found

    @cached_property
    def restored_ids(self) -> dict[str, str]:
        """The directory.id, by path, of each log directory whose meta.properties lacks it or has another one.

        It is the one that the metadata log assigns the partitions lying there to, if no other log directory has it, and
        it is the only such. A directory of another node or cluster has none.
        """
        if self.topics is None or self.number is None or not self.topics.knows_partitions:
            return {}
        own = {one.path: _own_id(one) for one in self.directories}
        counts, registered = Counter(own.values()), self.registered_directories
        taken, candidates = set[str](), dict[str, set[str]]()
        for one in self.directories:
            named = own[one.path]
            found = set() if self._is_of_other(one) else self._ids_of_partitions(one, named)
            if named is not None and (named in found or (not found and counts[named] == 1)):
                taken.add(named)
            elif named in registered and counts[named] == 1:
                candidates[one.path] = found - registered  # those are other disks
            else:
                candidates[one.path] = found
        restored: dict[str, str] = {}
        while only := {path: found - taken for path, found in candidates.items() if len(found - taken) == 1}:
            path, (directory_id,) = next(iter(only.items()))
            restored[path] = directory_id
            taken.add(directory_id)
            del candidates[path]
        return restored

    def _is_of_other(self, directory: LogDirectory) -> bool:
        """Whether meta.properties names another node or cluster."""
        if directory.meta is None or META_PROPERTIES in directory.problems:
            return False
        return directory.ids != (self.cluster_id, self.number)

    def _ids_of_partitions(self, directory: LogDirectory, own: str | None) -> set[str]:
        """Returns the ids that the metadata log assigns the partitions of a log directory to; only ``own`` if it is
        among them. The metadata log itself lies in the directory of the voter."""
        found = set[str]()
        for name in directory.directories:
            place = None if is_moved(name) else parse_partition_name(name)
            if place is None or place[0] == METADATA_TOPIC:
                continue
            assigned = self.assigned_id(topic_id_at(Place(directory.path) / name), place[1])
            if assigned is not None and assigned == own:
                return {assigned}
            found.update([assigned] if assigned is not None else ())
        if own is None and directory is self.metadata and (voter := self._voter_directory) is not None:
            return {voter}
        return found

    @property
    def _voter_directory(self) -> str | None:
        """The directory.id of the node among the voters in its metadata log."""
        from kseg.node.cluster_metadata import read_raft  # few nodes have lost it

        if self.metadata is None or self.number is None:
            return None
        path = Place(self.metadata.path) / METADATA_PARTITION
        with suppress(KsegError):
            return read_raft(path, list_segments(path)).voter_directories.get(self.number)
        return None

    def restored_properties(self, directory: str) -> MetaProperties | None:
        """Returns what meta.properties of a log directory has to say; None if it is right, or not all of it is known:
        the ids of cluster and node stand in those of the other disks."""
        found = self.directory_at(directory)
        directory_id = None if found is None else self.restored_ids.get(found.path)
        if directory_id is None or self.cluster_id is None or self.number is None:
            return None
        return MetaProperties(1, self.cluster_id, None, self.number, directory_id)

    def topic_id(self, topic: str) -> str | None:
        """Returns the id of a topic; None if it is unknown, or the metadata are incomplete."""
        return self.topics.ids.get(topic) if self.topics is not None and not self.topics.lacking else None

    def directory_at(self, path: str) -> LogDirectory | None:
        """Returns the log directory at a path."""
        found = self._by_place.get(path)
        return found if found is not None else self._by_place.get(os.path.realpath(path))

    def partition(self, path: str) -> Partition:
        """Returns a partition directory of the node."""
        return Partition(path, self, self.directory_at(Place(path).absolute.parent))

    def elsewhere(self) -> str:
        """Returns what lies on disks that are not known, and how to name them, for messages; "" if nothing is known to
        be missing."""
        if self.topics is not None or not self.is_kraft:
            return ""
        advice = "give all log directories of the node"
        if self.server is None:
            advice += ", or --server-properties FILE"
        return f"{METADATA_PARTITION}, which has the settings of topics, is on none of these disks: {advice}"


def is_reserved_id(directory_id: str) -> bool:
    """Whether a directory.id means something else than a directory."""
    number = int.from_bytes(base64.urlsafe_b64decode(directory_id.rstrip("=") + "=="), "big")
    return number < _RESERVED_IDS


def _own_id(directory: LogDirectory) -> str | None:
    """Returns the directory.id in a meta.properties that can be read."""
    if directory.meta is None or META_PROPERTIES in directory.problems:
        return None
    found = directory.meta.directory_id
    return found if found and is_uuid(found) and not is_reserved_id(found) else None


class Nodes:
    """The nodes at the PATHs of a command; ``server``: the configuration that an option names.

    A log directory that is not among them is a node of its own, when it is asked for.
    """

    def __init__(self, paths: Iterable[str] = (), server: ServerProperties | None = None) -> None:
        self.server = server
        self._given = list(paths)
        self._alone: dict[str, Node] = {}
        self._around: dict[str, tuple[Node, LogDirectory | None]] = {}
        """The node and the log directory by the path around partitions: links in it are resolved once."""

    def give(self, paths: Iterable[str]) -> None:
        """Sets the PATHs, before anything is asked."""
        self._given = list(paths)

    @cached_property
    def paths(self) -> list[str]:
        """The PATHs, with the log directories of a node in place of what stands for it. Raises PathError."""
        return expanded(self._given)

    @cached_property
    def topics_at_paths(self) -> set[str | None]:
        """The topics of the partitions in the log directories among the PATHs."""
        found = set[str | None]()
        for path in self.paths:
            with suppress(KsegError):  # reported when it is read
                found.update(map(topic_of_place, own_partitions(path)))
        return found

    @cached_property
    def servers(self) -> list[ServerProperties]:
        """The configurations: that of the option, and those given as PATHs."""
        found = {} if self.server is None else {os.path.realpath(self.server.path): self.server}
        for path in self._given:
            if (one := configuration_at(path)) is not None:
                found.setdefault(os.path.realpath(path), one)
        return list(found.values())

    @cached_property
    def given(self) -> list[Node]:
        """The nodes of the given log directories, and of those around the given partitions and segments."""
        roots: dict[str, LogDirectory] = {}
        for path in self.paths:
            for found in _log_directories_at(path):
                roots.setdefault(os.path.realpath(found.path), found)
        nodes = [Node(_of_server(one, roots, True), one) for one in self.servers if one is not self.server]
        if self.server is not None:
            # A copy lies under other names than the configuration has.
            is_original = any(map(self.server.names, (*roots, *self.paths)))
            named = list(_of_server(self.server, roots, is_original))
            return [*nodes, Node([*named, *roots.values()], self.server)]
        nodes += map(Node, node_groups(list(roots.values())))
        for members in by_cluster(nodes):
            _share_coordinators(members)
        return nodes

    @cached_property
    def _by_place(self) -> dict[str, Node]:
        return {os.path.realpath(one.path): node for node in self.given for one in node.directories}

    def at(self, log_directory: str) -> Node:
        """Returns the node of a log directory; one without directories if it cannot be read."""
        place = os.path.realpath(log_directory)
        if (found := self._by_place.get(place)) is not None:
            return found
        if place not in self._alone:
            directories = []
            with suppress(PathError):
                directories.append(read_log_directory(log_directory))
            self._alone[place] = Node(directories, self.server)
        return self._alone[place]

    def partition(self, path: str) -> Partition:
        """Returns the partition in a directory."""
        path = Place(path).without_slash
        around = path.absolute.parent
        if around not in self._around:
            node = self.at(around)
            self._around[around] = node, node.directory_at(around)
        return Partition(path, *self._around[around])

    def longest_copies(self, partitions: Iterable[str], scratch: Scratch) -> list[str]:
        """Returns partition directories: of several copies of one that which ends last. It has the records of the
        others, and later deletions."""
        copies: dict[object, list[str]] = defaultdict(list)
        for path in partitions:
            name = parse_partition_name(directory_name(path))
            key = name and (name, topic_id_at(path) or self.partition(path).node.cluster_id)
            copies[key or path].append(path)
        return [longest_copy(some, scratch) for some in copies.values()]


def by_cluster(nodes: Iterable[Node]) -> list[list[Node]]:
    """Returns the nodes of each cluster of which several are given. Several copies of one node are no cluster: only one
    of them can start."""
    by_id: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.cluster_id is not None and node.number is not None:
            by_id[node.cluster_id].append(node)
    return [
        found
        for found in by_id.values()
        if len(found) > 1 and max(Counter(node.number for node in found).values()) == 1
    ]


def newest_metadata(nodes: Iterable[Node]) -> "TopicSettings | None":
    """Returns the newest metadata that the nodes have; None if none has any."""
    known = [node.topics for node in nodes if node.topics is not None]
    return max(known, key=lambda topics: topics.reached, default=None)


def _share_coordinators(nodes: list[Node]) -> None:
    """Lets the nodes of a cluster have the coordinators of all of them."""
    from kseg.node.coordinators import TOPIC, Coordinators  # few commands are given several nodes

    def state_partitions() -> int | None:
        metadata = newest_metadata(nodes)
        if metadata is None or not metadata.knows_partitions:
            return None
        is_whole = metadata.image.brokers.keys() <= {node.number for node in nodes}
        # A copy of a running node may be older than the transactions in that of another.
        was_clean = all(one.was_clean for node in nodes for one in node.directories)
        wanted = metadata.ids.get(TOPIC)
        return sum(topic_id == wanted for topic_id, _ in metadata.partitions) if is_whole and was_clean else None

    shared = Coordinators([one.path for node in nodes for one in node.directories], state_partitions)
    for node in nodes:
        node.coordinators = shared


def is_of_one_node(log_directory: str, paths: Iterable[str]) -> bool:
    """Whether meta.properties of a log directory has the ids of cluster and node that those of the PATHs have."""
    with suppress(PathError):
        ids = {one.ids for node in Nodes(paths).given for one in node.directories}
        return Place(log_directory).is_dir() and ids == {read_log_directory(log_directory).ids} - {(None, None)}
    return False


def _of_server(server: ServerProperties, roots: dict[str, LogDirectory], takes_others: bool) -> Iterator[LogDirectory]:
    """Yields the log directories of a configuration, and takes them out of ``roots``; ``takes_others``: those that are
    not among these, too."""
    for path in server.directories:
        found = roots.pop(os.path.realpath(path), None)
        if found is None and takes_others and Place(path).is_dir():
            try:
                found = read_log_directory(path)
            except PathError:
                found = None  # the check of the directory reports the error
        if found is not None:
            yield found


def _log_directories_at(path: str) -> list[LogDirectory]:
    """Returns the log directory at a path, or around the partition or file there, or those in the archive there."""
    with suppress(PathError):  # whoever reads the path reports the error
        at = path if Place(path).is_dir() else Place(path).absolute.parent
        for each in (at, Place(at).absolute.parent):
            if (found := read_log_directory(each)).is_marked or found.holds_metadata:
                return [found]
    with suppress(KsegError):
        return [found for each in roots_of(path) if each != path and (found := read_log_directory(each)).is_marked]
    return []


def node_groups(directories: Collection[LogDirectory]) -> list[list[LogDirectory]]:
    """Returns the directories of each node.

    They are one node's, unless several have a metadata log or are replicas of each other: then each metadata log is
    that of another node or of another copy, and the directories without one go by their ids.
    """
    heads = [one for one in directories if one.holds_metadata]
    seen: dict[str, tuple[str | None, int | None]] = {}
    are_replicas = any(
        seen.setdefault(name, one.ids) != one.ids
        for one in directories for name in one.directories if not is_moved(name)
    )  # fmt: skip
    if len(heads) < 2 and not are_replicas:
        return [list(directories)] if directories else []
    groups: dict[object, list[LogDirectory]] = {one.path: [one] for one in heads}
    for one in directories:
        if not one.holds_metadata:
            same = [head.path for head in heads if head.ids == one.ids]
            apart = one.ids if one.meta is not None and not same else one.path
            groups.setdefault(same[0] if len(same) == 1 else apart, []).append(one)
    return list(groups.values())
