"""Checks log directories: each by itself, then those of one node as the node checks them at its start.

Sources: MetaPropertiesEnsemble, KafkaRaftServer, LogManager, ReplicaManager of Kafka 4.3.1 and 4.4.0 (KIP-858).
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from errno import EACCES
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import DELETED, DOUBTFUL, EMPTIED, ERROR, KINDS, OFFLINE, RECOVERED, REFUSED, TOPIC_ID
from kseg.node.log_directory import METADATA_PARTITION, LogDirectory, is_moved
from kseg.node.node import Node, Nodes
from kseg.quantities import plural
from kseg.releases.metadata import MetadataRules, releases_that_accept
from kseg.segment.files import (
    BOOTSTRAP,
    LOCK_NAME,
    LOG_DIRECTORY_FILES,
    METADATA_TOPIC,
    OWN_PREFIX,
    QUORUM_STATE,
    REMOTE_INDEX_CACHE,
    list_segments,
    parse_partition_name,
)
from kseg.segment.paths import some
from kseg.segment.survey import QUICK
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, OFFSET_CHECKPOINTS
from kseg.sidefiles.text_files import META_PROPERTIES, PARTITION_METADATA, MetaProperties, integer, missing_in_kraft
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.verification.metadata import is_newest, judge_features, judge_snapshot
from kseg.verification.partition import CheckSettings, LogSpan, add_unread
from kseg.verification.report import NO_DETAILS, AssignedPartition, Details, Finding, NodeStart, Report, effect_of
from kseg.verification.surroundings import judge_surroundings, unknown_text

if TYPE_CHECKING:
    from kseg.node.cluster_metadata import TopicSettings
    from kseg.node.metadata_image import PartitionImage

# Checks a log directory itself: its own files, names in it, and partitions that contradict each other.
#
# Sources: LogManager.loadLogs, LocalLog.parseTopicPartitionName, CheckpointFile, MetaProperties of Kafka 4.3.1.

KNOWN_FILES = LOG_DIRECTORY_FILES | {LOCK_NAME, BOOTSTRAP}


def judge_entries(directory: LogDirectory, node: Node, report: Report, level: int) -> None:
    """Checks the entries of a log directory: its own files, and which directories it has; not what these hold."""
    _own_files(directory, node, report, level)
    _directory_names(directory, report)
    judge_surroundings(directory, node, report)
    here = {name for one in node.directories for name in one.directories}
    if absent := sorted(name for name in acknowledged(directory) if name not in here):
        text = f"in the checkpoint, but without a directory: {some(absent)}"
        report.add("partition-missing", Place(directory.path) / HIGH_WATERMARKS, text)
    if node.metadata is directory and lacks_topics(node):
        lacking, topics = _lacking_topics(node)
        text = f"it lacks {len(lacking)} of the {len(topics)} topics with partitions here: {some(sorted(lacking))}"
        report.add("metadata-lost", Place(directory.path) / METADATA_PARTITION, text)
    if not directory.was_clean and not is_output(directory):
        report.add("unclean-shutdown", directory.path, "there is no .kafka_cleanshutdown: a broker runs, or was killed")


def acknowledged(directory: LogDirectory) -> frozenset[str]:
    """Returns the names of the partitions that had records, by the high watermarks of a log directory."""
    marks = directory.offsets.get(HIGH_WATERMARKS, {})
    return frozenset(f"{topic}-{number}" for (topic, number), offset in marks.items() if offset > 0)


def lacks_topics(node: Node) -> bool:
    """Whether the cluster's metadata lack most topics of the partitions, and more than one: records are missing there,
    or the metadata are another cluster's."""
    lacking, topics = _lacking_topics(node)
    return len(lacking) > max(1, len(topics) // 2)


def _lacking_topics(node: Node) -> tuple[set[str], set[str]]:
    """Returns the topics of partitions that __cluster_metadata lacks, and all topics of partitions."""
    names = (name for one in node.directories for name in one.directories if not is_moved(name))
    topics = {parsed[0] for name in names if (parsed := topic_partition(name))} - {METADATA_TOPIC}
    known = node.topics
    return (set() if known is None or known.lacking else topics - known.ids.keys()), topics


def _own_files(directory: LogDirectory, node: Node, report: Report, level: int) -> None:
    for name, problems in directory.problems.items():
        code = "unreadable-checkpoint" if name in OFFSET_CHECKPOINTS else "bad-meta-properties"
        first = problems[0]
        text = first.message if len(problems) == 1 else f"{first.message}; further such problems: {len(problems) - 1}"
        of_id, details = ("", NO_DETAILS) if name != META_PROPERTIES else told_id(directory, node)
        path = Place(directory.path) / name
        report.add(code, path, text + of_id, first.position, first.length, details=details)
    for name in directory.unread:
        add_unread(Place(directory.path) / name, report, PermissionError(EACCES, os.strerror(EACCES)))
    if META_PROPERTIES not in directory.files and not is_output(directory):
        # Partitions of a release with KRaft (since 2.8) have partition.metadata.
        needs_it = directory.is_kraft or any(
            parse_partition_name(name) and (Place(directory.path) / name / PARTITION_METADATA).lexists()
            for name in directory.directories
        )
        text = f"no {META_PROPERTIES}: a node of KRaft does not start without it, one of ZooKeeper makes a new one"
        if needs_it:
            of_id, details = told_id(directory, node)
            report.add("bad-meta-properties", directory.path, text + of_id, details=details)
    if directory.holds_metadata and META_PROPERTIES not in directory.problems and directory.meta:
        if missing := missing_in_kraft(directory.meta):
            text = f"{missing}: a node of KRaft does not start with it"
            report.add("bad-meta-properties", Place(directory.path) / META_PROPERTIES, text)
    if BOOTSTRAP in directory.files:
        judge_snapshot(Place(directory.path) / BOOTSTRAP, report, level)
    _pending(directory, report)
    unknown = sorted(
        name for name in directory.files - KNOWN_FILES if not name.endswith(".tmp") and not name.startswith(OWN_PREFIX)
    )
    if unknown:
        report.add("unknown-file", directory.path, unknown_text(unknown))


def told_id(directory: LogDirectory, node: Node) -> tuple[str, Details]:
    """Returns the directory.id that meta.properties has to have, as a part of a sentence and as details; nothing if
    the metadata log does not tell it."""
    if (found := node.restored_ids.get(directory.path)) is None:
        return "", NO_DETAILS
    text = f"; the cluster's metadata assign the partitions here to directory.id {found}: with any other, as a format "
    text += "makes one, they have no leader"
    if node.restored_properties(directory.path) is None:
        text += "; the cluster.id is on no disk that is known: take it from another node"
    return text, {"directoryId": found}


def _pending(directory: LogDirectory, report: Report) -> None:
    """Reports interrupted changes of kseg in the log directory."""
    if not any(name.startswith(OWN_PREFIX) for name in directory.files):
        return
    from kseg.changes.journal import OPEN, UNDOING, journals  # few log directories have been changed

    try:
        for journal in journals(resolved(directory.path)):  # nothing follows links to it
            if journal.state in (OPEN, UNDOING):
                text = f"{journal.command!r} was interrupted: some partitions may be changed, others not"
                report.add("pending-change", Place(directory.path) / os.path.basename(journal.path), text)
    except KsegError as error:
        report.add("pending-change", directory.path, str(error))


def is_output(directory: LogDirectory) -> bool:
    """Whether its partitions are for another log directory: kseg says so, or it has no files but those that kseg, too,
    writes beside copies."""
    if META_PROPERTIES in directory.files:
        return False
    from kseg.changes.new_directories import OUTPUT_MARK

    return OUTPUT_MARK in directory.files or not (directory.is_of_broker or directory.holds_metadata)


def _directory_names(directory: LogDirectory, report: Report) -> None:
    seen: dict[tuple[str, int, str], str] = {}
    for name in directory.directories:
        path = Place(directory.path) / name
        if name.startswith(OWN_PREFIX):
            from kseg.changes.new_directories import is_left  # few log directories have been changed

            if is_left(directory.path, name):
                text = "new partitions were being written when a command was stopped"
                text += ": brokers do not start with its folder"
                report.add("pending-change", path, text, severity=ERROR)
            continue
        if name == REMOTE_INDEX_CACHE:
            continue
        parsed = topic_partition(name)
        if parsed is None:
            text = f"the directory {name} is not named topic-partition, as all directories must be"
            report.add("broker-would-not-start", path, text)
            continue
        if parsed[0] == METADATA_TOPIC:
            continue
        ending = judge_moved(path, parsed, report)
        if ending in ("", "future"):
            before = seen.setdefault((*parsed, ending), name)
            if before != name:
                report.add("broker-would-not-start", path, f"{before} and {name} are the same partition")


def judge_moved(path: str, place: tuple[str, int], report: Report) -> str:
    """Reports a partition that a broker has renamed. Returns the ending of its name; "" if it has its own name."""
    ending = path.rpartition("-")[2] if is_moved(path) else ""
    if ending:
        report.add(f"{ending}-directory", path, f"{place[0]}-{place[1]} under a name that ends in -{ending}")
    return ending


@lru_cache(1 << 14)  # each check of a log directory parses all names
def topic_partition(name: str) -> tuple[str, int] | None:
    """Parses a directory's name as a broker does; None if a broker does not start with it."""
    rest, dash, number = name.rpartition("-")
    if is_moved(name):
        rest, dot, unique = rest.rpartition(".")
        # -delete, -future and -stray follow topic-partition.unique, which has no white space.
        if not dot or not unique or any(map(str.isspace, name)):
            return None
        rest, dash, number = rest.rpartition("-")
    partition = integer(number, 32)
    return (rest, partition) if dash and rest and partition is not None else None


def judge_topic_ids(directory: LogDirectory, node: Node, ids: Mapping[str, str], report: Report) -> None:
    """Compares the topic ids of partitions (``ids``: topic id by directory name) with each other.

    Topics in __cluster_metadata are skipped: the check of each partition compares them.
    """
    known = node.topics.ids if node.topics is not None else {}
    of_topic: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    of_id: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, topic_id in sorted(ids.items()):
        topic = name.rpartition("-")[0]
        of_topic[topic][topic_id].append(name)
        of_id[topic_id][topic].append(name)
    wrong: list[tuple[str, list[str], str]] = []
    for topic, found in of_topic.items():
        if topic not in known:
            _, *fewer = sorted(found.items(), key=lambda item: -len(item[1]))
            text = f"other partitions of {topic} have another"
            wrong += ((topic_id, names, f"topic id {topic_id}, {text}") for topic_id, names in fewer)
    for topic_id, topics in of_id.items():
        for topic, names in topics.items() if len(topics) > 1 else ():
            if topic not in known:
                others = some(sorted(topics.keys() - {topic}))
                wrong.append((topic_id, names, f"topic id {topic_id} is that of {others}, too"))
    for topic_id, names, text in wrong:
        for name in names:
            path = Place(directory.path) / name / PARTITION_METADATA
            report.add("topic-id-mismatch", path, text, details={"topicId": topic_id}, needs=TOPIC_ID)


_UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The directory of a partition for which the node has to choose one (DirectoryId)."""


class CheckedDirectory(NamedTuple):
    """A log directory whose partitions were checked; ``topic_ids``: by the names of its partitions but
    __cluster_metadata-0 and moved ones, None if there is no readable partition.metadata; ``extents``: by
    name."""

    directory: LogDirectory
    topic_ids: dict[str, str | None]
    extents: dict[str, LogSpan]


def judge_absent(path: str, nodes: Nodes, report: Report) -> bool:
    """Reports a log directory of a configuration that is missing or empty. Returns whether it is."""
    try:
        if not any(path in server.log_dirs for server in nodes.servers) or (
            Place(path).is_dir() and Place(path).names()
        ):
            return False
    except (KsegError, OSError):
        return False  # reported by its check
    report.absent.append(path)
    if Place(path).lexists() and not Place(path).is_dir():
        report.add("bad-meta-properties", Place(path) / META_PROPERTIES, "the log directory is a file")
    else:
        text = "the log directory is empty" if Place(path).is_dir() else "there is no such log directory"
        report.add("bad-meta-properties", path, f"{text}: a node of KRaft does not start without {META_PROPERTIES}")
    return True


class NodeCheck:
    """The checks of one node's log directories against each other. ``found``: those that were checked; ``absent``: log
    directories that a configuration names and that are missing or empty; ``unchecked``: those whose partitions were not
    checked."""

    def __init__(
        self, node: Node, found: list[CheckedDirectory], absent: Collection[str] = (), unchecked: Collection[str] = ()
    ) -> None:
        self.node, self.found, self.unchecked = node, found, list(unchecked)
        self.directories = [one.directory for one in found]
        if node.server is None:
            absent = ()
        self.roots = [*(one.path for one in self.directories), *absent]

    def contradictions(self) -> Iterator[tuple[str, str, str]]:
        """Yields (code, path, sentence) for what keeps the node from starting on all these directories, and for a
        controller that has lost its metadata."""
        yield from self._ids("cluster.id", None, lambda meta: meta.cluster_id)
        server = self.node.server
        yield from self._ids("node.id", None if server is None else server.node_id, lambda meta: meta.number)
        yield from self._metadata_places()
        count = sum(len(one.topic_ids) for one in self.found)
        metadata = self.node.topics
        if metadata is not None and metadata.image.brokers and self.node.number is not None and count:
            if self.node.number not in {*metadata.image.brokers, *metadata.image.controllers}:
                known = some(sorted(map(str, metadata.image.brokers)))
                text = f"node.id is {self.node.number}; __cluster_metadata has {known}"
                yield "unknown-node", Place(self.directories[0].path) / META_PROPERTIES, text
        if self.node.metadata is None and self.node.server is not None and "controller" in self.node.server.roles:
            if count and {os.path.realpath(path) for path in self.node.server.log_dirs} <= self._real_paths():
                text = f"{METADATA_PARTITION} is in none of log.dirs; partitions here: {count}"
                yield "metadata-lost", self.directories[0].path, text

    def _ids(self, name: str, wanted: object, of: Callable[[MetaProperties], object]) -> Iterator[tuple[str, str, str]]:
        source = "" if self.node.server is None else self.node.server.path
        for directory in self.directories:
            value = None if directory.meta is None else of(directory.meta)
            if value is None or META_PROPERTIES in directory.problems:
                continue
            if wanted is None:
                wanted, source = value, directory.path
            elif value != wanted:
                path = Place(directory.path) / META_PROPERTIES
                yield "node-identity-mismatch", path, f"{name} is {value}, that of {source} is {wanted}"

    def _metadata_places(self) -> Iterator[tuple[str, str, str]]:
        wanted = self.node.server.metadata_log_dir if self.node.server is not None else None
        places = [one.path for one in self.directories if one.holds_metadata]
        if wanted is None or os.path.realpath(wanted) not in self._real_paths():
            wanted = places[0] if places else None  # a copy of the directories
        for path in places:
            if wanted is not None and os.path.realpath(path) != os.path.realpath(wanted):
                text = f"the cluster's metadata belong into {wanted}, as metadata.log.dir or the first of log.dirs"
                yield "broker-would-not-start", Place(path) / METADATA_PARTITION, text

    def quorum(self) -> Iterator[tuple[str, str, str]]:
        """Yields (code, path, sentence) for what contradicts the voters of the metadata log: those of the newest
        KRAFT_VOTERS, of controller.quorum.voters, or of quorum-state."""
        if self.node.metadata is None or (self.node.topics is not None and self.node.topics.lacking):
            return  # the newest voters may be in what is lacking
        from kseg.node.cluster_metadata import quorum_state_in, read_raft  # few nodes' directories are checked

        directory = Place(self.node.metadata.path) / METADATA_PARTITION
        path, state = directory / QUORUM_STATE, quorum_state_in(directory)
        try:
            dynamic = read_raft(directory, list_segments(directory)).voter_directories
        except KsegError:
            return  # reported for the segment
        if dynamic:
            yield from self._own_voter(self.node.metadata, dynamic)
        configured = self.node.server.quorum_voters if self.node.server is not None and not dynamic else frozenset()
        before = frozenset(state.current_voters or ())
        if configured and before and configured != before:
            text = f"its voters are {_ids(before)}, those of controller.quorum.voters {_ids(configured)}"
            yield "quorum-mismatch", path, text
        if voters := dynamic.keys() or configured or before:
            for name, node in (("leaderId", state.leader_id), ("votedId", state.voted_id)):
                if node is not None and node >= 0 and node not in voters:
                    yield "quorum-mismatch", path, f"{name} is {node}, the voters are {_ids(voters)}"

    def _own_voter(self, directory: LogDirectory, voters: Mapping[int, str | None]) -> Iterator[tuple[str, str, str]]:
        own = directory.meta and directory.meta.directory_id
        wanted = voters.get(-1 if self.node.number is None else self.node.number)
        is_broker = self.node.server is not None and not self.node.server.may_be_controller
        if not own or not wanted or own == wanted or is_broker:
            return
        path = Place(directory.path) / META_PROPERTIES
        text = f"directory.id is {own}, that of the voter with this node.id is {wanted}"
        if len(voters) > 1:
            yield "quorum-mismatch", path, text
        else:
            yield "node-identity-mismatch", path, f"{text}, which is the only one: the node waits for it for ever"

    def judge_bootstrap(self, rules: MetadataRules, report: Report) -> None:
        """Judges bootstrap.checkpoint, which each start up to 4.3 reads, whatever the metadata log holds."""
        from kseg.node.cluster_metadata import load_snapshot
        from kseg.node.metadata_image import FEATURE_RECORD

        for directory in self.directories if rules.reads_bootstrap else ():
            if BOOTSTRAP in directory.files:
                path = os.path.join(directory.path, BOOTSTRAP)
                with suppress(KsegError):  # reported for the file
                    image = load_snapshot(path, frozenset({FEATURE_RECORD}), is_whole=False).image
                    judge_features(path, image, rules, report)

    @property
    def releases(self) -> list[str] | None:
        """The releases that accept the features of the cluster's metadata; None if these are not known."""
        topics = self.node.topics
        if topics is None or topics.image.metadata_version is None:
            return None
        return releases_that_accept(topics.image.metadata_version, topics.image.features)

    @cached_property
    def at_start(self) -> "TopicSettings | None":
        """The metadata that the start finds, from which it learns its partitions; None if they are not known."""
        topics = self.node.topics
        if self.node.metadata is None or topics is None:
            return None
        if not topics.knows_partitions:
            from kseg.node.cluster_metadata import is_only_voter  # few metadata logs are damaged

            with suppress(KsegError, OSError):
                is_alone = is_only_voter(Place(self.node.metadata.path) / METADATA_PARTITION, self.node.server)
                topics = topics.at_start() if is_alone else None
        return topics if topics is not None and topics.image.brokers and topics.knows_partitions else None

    def strays(self) -> list[str] | None:
        """Returns the paths of partitions that the start sets aside; None if the metadata are not known."""
        metadata = self.at_start
        if metadata is None:
            return None if self.node.is_kraft else []

        def is_assigned(name: str, topic_id: str | None) -> bool:
            place = topic_partition(name)  # brokers look a partition up by its topic id
            partition = None if topic_id is None or place is None else metadata.partitions.get((topic_id, place[1]))
            return partition is not None and self.node.number in partition.replicas

        from kseg.node.coordinators import topic_id_at

        found = list[str]()
        for one in self.found:
            ids, root = dict(one.topic_ids), one.directory.path
            futures = (name for name in one.directory.directories if name.endswith("-future"))
            ids |= {name: topic_id_at(Place(root) / name) for name in futures if topic_partition(name)}
            found += [Place(root) / name for name, topic_id in ids.items() if not is_assigned(name, topic_id)]
        return found

    @cached_property
    def is_whole(self) -> bool:
        """Whether all log directories of the node are here, or known to be offline."""
        if self.node.server is not None and self.node.server.log_dirs:
            return set(map(os.path.realpath, self.node.server.log_dirs)) <= set(map(os.path.realpath, self.roots))
        registered = self.node.registered_directories
        return bool(registered) and registered <= self.node.directory_ids.keys()

    def missing(self) -> "Iterator[tuple[str, PartitionImage]]":
        """Yields the partitions that the metadata assign to the node, and that no directory here has."""
        topics = self.at_start
        if topics is None or self.node.number is None:
            return
        held: set[tuple[str | None, int]] = set()
        unread = {name for directory in self.directories for name in directory.directories}
        for name, topic_id in (item for one in self.found for item in one.topic_ids.items()):
            held.add((topic_id, place[1] if (place := topic_partition(name)) else -1))
            unread.discard(name)
        for (topic_id, number), partition in topics.partitions.items():
            name = f"{topics.image.topics[topic_id].name}-{number}"
            if self.node.number in partition.replicas and (topic_id, number) not in held and name not in unread:
                yield name, partition

    def absent(self, offline: Collection[str]) -> tuple[list[AssignedPartition] | None, list[AssignedPartition]]:
        """Returns the partitions of the node that no directory has: those that the start creates empty (None: not
        known), and those that it does not create because their directory may be among the ``offline`` ones, or that a
        directory lacks while others are not here."""
        topics = self.at_start
        if topics is None or self.node.number is None:
            return None, []
        ids = {number: one.path for number, one in self.node.directory_ids.items()}
        is_whole = self.is_whole
        creates, lacks = list[AssignedPartition](), list[AssignedPartition]()
        for name, partition in self.missing():
            assigned = partition.directories[partition.replicas.index(self.node.number)]
            here = ids.get(assigned)
            is_created = not offline or assigned == _UNASSIGNED or (here is not None and here not in offline)
            if is_whole or here is not None:
                (creates if is_whole and is_created else lacks).append(AssignedPartition(name, here))
        is_known = is_whole or not any(self.node.number in each.replicas for each in topics.partitions.values())
        in_order = partial(sorted, key=itemgetter(0))
        return in_order(creates) if is_known else None, in_order(lacks)

    def _real_paths(self) -> set[str]:
        return {os.path.realpath(one.path) for one in self.directories}


def start_of(node: NodeCheck, settings: CheckSettings, report: Report) -> NodeStart:
    """Predicts a node's start from what was found in its directories."""
    of: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in report.effects.values():
        if _root_of(finding.file, node) is not None:
            of[effect_of(finding)].append(finding)
    because = [_sentence(finding) for finding in of[REFUSED] if _is_met(finding)]
    offline = {_root_of(finding.file, node) or "": finding for finding in of[OFFLINE]}
    for root, finding in offline.items():
        is_missing = finding.code == "bad-meta-properties" and finding.file == root
        is_vital = node.node.metadata is not None and node.node.metadata.path == root
        if is_missing or is_vital or len(offline) == len(node.roots):
            because.append(_sentence(finding))
    because = list(dict.fromkeys(because))
    starts: bool | None = not because
    if starts and (because := list(_doubts(node, of[DOUBTFUL], settings, report))):
        starts = None
    partitions: dict[str, list[str]] = {EMPTIED: [], RECOVERED: []}
    for effect, found in partitions.items():
        for finding in of[effect]:
            root = _root_of(finding.file, node) or ""
            name = finding.file[len(root) :].lstrip("/").partition("/")[0]
            if _is_loaded(name):
                found.append(Place(root) / name)
    deleted = [Place(one.path) / name for one in node.directories for name in one.directories
               if name.endswith("-delete")]  # fmt: skip
    unclean = [Place(one.path) / name for one in node.directories if not one.was_clean
               for name in one.directories if _is_loaded(name)]  # fmt: skip
    recovered = list(dict.fromkeys([*unclean, *partitions[RECOVERED]]))
    files = sum(finding.details.get("count", 1) for finding in of[DELETED])
    return NodeStart(
        node.roots, starts, because, recovered, node.strays(),
        [*deleted, *partitions[EMPTIED]], files, *node.absent({*report.absent, *offline}), node.releases,
    )  # fmt: skip


def _is_met(finding: Finding) -> bool:
    """Whether the start reads what is wrong."""
    if finding.code == "bad-metadata-snapshot":
        return is_newest(finding.file)
    return finding.code != "metadata-record-refused" or "reason" in finding.details


def _doubts(node: NodeCheck, doubtful: list[Finding], settings: CheckSettings, report: Report) -> Iterator[str]:
    """Yields the reasons why it is not known whether the node starts."""
    yield from (_sentence(finding) for finding in doubtful if _is_met(finding))
    if settings.level == QUICK:
        yield "level quick reads too little"
    if report.ignored and any(KINDS[code].start for code in report.ignored):
        yield "--ignore omits findings that may prevent it"
    # A path may be the beginning of a longer name.
    roots = [re.escape(root.rstrip("/")) + r"(?![\w.-])" for root in node.roots]
    if any(re.search(root, failure) for failure in report.failures for root in roots):
        yield "not everything could be read"
    if node.unchecked:
        yield f"the partitions in {some(node.unchecked)} were not checked: give all log directories of the node"
    elif node.node.server is None and (more := len(node.node.registered_directories) - len(node.directories)) > 0:
        text = f"by its metadata the node has {plural(more, 'more log directory', 'more log directories')}"
        yield f"{text}: give all of them, or --server-properties FILE"
    if node.node.is_kraft and node.node.metadata is None:
        yield f"{METADATA_PARTITION} is not here: the only controller would begin an empty cluster"


def _is_loaded(name: str) -> bool:
    place = topic_partition(name)
    return place is not None and place[0] != METADATA_TOPIC and not name.endswith("-delete")


def _ids(nodes: Iterable[int]) -> str:
    return some([*map(str, sorted(nodes))])


def _root_of(file: str, node: NodeCheck) -> str | None:
    """Returns the directory of the node that holds a file."""
    return next((root for root in node.roots if file == root or file.startswith(root.rstrip("/") + "/")), None)


def _sentence(finding: Finding) -> str:
    return f"{finding.file}: {finding.code}: {finding.message}"
