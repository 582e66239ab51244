"""Checks the log directories of each node together, when all are checked: as the node does at its start, and which
partitions lie on which disk.

Sources: LogManager, ReplicaManager, MetaPropertiesEnsemble, KafkaRaftServer, LogCleanerManager, OffsetMetadataManager
of Kafka 4.3.1 and 4.4.0; KIP-858, KIP-966.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kseg.errors import KsegError
from kseg.findings.table import DECISION, DELETED, DOUBTFUL, EMPTIED, KINDS, OFFLINE, RECOVERED, REFUSED
from kseg.formats.rows import Scratch
from kseg.node import log_directory
from kseg.node.log_directory import METADATA_PARTITION, LogDirectory, is_moved, log_extent, topic_id_at
from kseg.node.node import Node, Nodes, is_reserved_id, newest_metadata
from kseg.quantities import named_path, plural
from kseg.releases.metadata import MetadataRules, releases_that_accept
from kseg.releases.release import NEWEST
from kseg.segment.files import BOOTSTRAP, METADATA_TOPIC, QUORUM_STATE, is_uuid, list_segments
from kseg.segment.paths import some
from kseg.segment.survey import DEEP, QUICK
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, OFFSET_CHECKPOINTS
from kseg.sidefiles.text_files import META_PROPERTIES, MetaProperties
from kseg.stores.place import Place
from kseg.verification.log_directories import (
    CheckedDirectory,
    acknowledged,
    is_output,
    judge_absent,
    judge_entries,
    told_id,
    topic_partition,
)
from kseg.verification.metadata import is_newest, judge_features
from kseg.verification.partition import CheckSettings, LogSpan
from kseg.verification.report import NO_DETAILS, AssignedPartition, Finding, NodeStart, Report, effect_of

if TYPE_CHECKING:
    from kseg.node.cluster_metadata import TopicSettings
    from kseg.node.metadata_image import PartitionImage

_UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The directory of a partition for which the node has to choose one (DirectoryId)."""
_LEAST_BEYOND = 2
"""From so many partitions on, high watermarks beyond log ends have one cause."""


def judge_nodes(nodes: Nodes, settings: CheckSettings, report: Report) -> None:
    """Checks the log directories in ``report.directories`` by node and by cluster; adds the start of each node to
    ``report.starts``, and the clusters to ``report.clusters``."""
    of_node: dict[Node, list[CheckedDirectory]] = {}
    for one in _by_real_path(report.directories).values():
        of_node.setdefault(nodes.at(one.directory.path), []).append(one)
    for path in report.absent:
        for node in nodes.given:
            if node.is_configured(path):
                of_node.setdefault(node, [])
    checks = list[NodeCheck]()
    for node, found in of_node.items():
        unchecked = _add_others(node, found, nodes, settings.level, report)
        check = NodeCheck(node, found, report, unchecked)
        check.judge(settings)
        if not settings.is_live:
            if not check.directories or not all(is_output(one, node) for one in check.directories):
                report.starts.append(start_of(check, settings))
            checks.append(check)
    if settings.level == DEEP:
        _judge_commits(checks, report)
    if len(of_node) > 1 and not settings.is_live:
        from kseg.verification.clusters import judge_clusters  # few checks have several nodes

        judge_clusters(nodes, report)


def _judge_commits(checks: list["NodeCheck"], report: Report) -> None:
    """Reports groups whose committed offset is outside of all copies of the partition on the cluster's nodes: what one
    copy lacks, another may have. If the newest metadata know the topic's id, only copies with this id count. No broker
    may run meanwhile: it would extend the logs."""
    of_cluster: dict[int, list[NodeCheck]] = {}
    for check in checks:
        of_cluster.setdefault(id(check.node.coordinators), []).append(check)
    for found in of_cluster.values():
        copies: defaultdict[tuple[str, int], list[tuple[str, str | None, LogSpan]]] = defaultdict(list)
        for one in (one for check in found for one in check.found):
            for name, span in one.extents.items():
                if (place := topic_partition(name)) is not None:
                    copies[place].append((Place(one.directory.path) / name, one.topic_ids[name], span))
        metadata = newest_metadata(check.node for check in found)
        for place, commits in sorted((found[0].node.coordinators.group_offsets or {}).items()):
            wanted = None if metadata is None else metadata.ids.get(place[0])
            of_place = [copy for copy in copies[place] if copy[1] in (None, wanted)] or copies[place]
            if not of_place:
                continue
            path, topic_id, span = max(of_place, key=lambda copy: copy[2].end)
            start, count = min(span.start for *_, span in of_place), len(of_place)
            ends, starts = f"the log ends at {span.end}", f"the log starts at {start}"
            if count > 1:
                ends = f"no copy of {count} ends after {span.end}"
                starts = f"no copy of {count} starts before {start}"
            commits = [one for one in commits if topic_id is None or one.topic_id in (None, topic_id)]
            beyond = [one for one in commits if one.offset > span.end]
            below = [one for one in commits if one.offset < start]
            for code, groups, text in (("commit-beyond-end", beyond, ends), ("commit-below-start", below, starts)):
                if groups:
                    groups.sort(key=lambda one: (-one.offset, one.group))
                    text += f"; committed offsets of groups: {some([f'{one.group} {one.offset}' for one in groups])}"
                    details = {"waitingGroups": [one.as_object() for one in groups], "count": len(groups)}
                    report.add(code, path, text, offset=groups[0].offset, details=details)


def _add_others(node: Node, found: list[CheckedDirectory], nodes: Nodes, level: int, report: Report) -> list[str]:
    """Checks the entries of the log directories that the node's configuration names and that are not among the PATHs;
    those that can be read are added to ``found``. Returns the ones whose partitions were not checked."""
    checked = {*_by_real_path(found), *map(os.path.realpath, report.absent)}
    named = node.server.directories if node.server is not None else []
    if not any(os.path.realpath(path) in checked for path in named):
        return []  # a copy lies under other names than the configuration has
    unchecked = []
    for path in named:
        if os.path.realpath(path) in checked or judge_absent(path, nodes, report):
            continue
        unchecked.append(path)
        directory = node.directory_at(path)
        if directory is not None:
            judge_entries(directory, node, report, level)
            twins = {name for one in found for name in one.directory.directories}
            found.append(_entries_of(directory, twins))
    return unchecked


def _by_real_path(found: list[CheckedDirectory]) -> dict[str, CheckedDirectory]:
    return {os.path.realpath(one.directory.path): one for one in found}


def _entries_of(directory: LogDirectory, twins: Collection[str]) -> CheckedDirectory:
    """Returns the partitions of a log directory that were not checked, with the extents of the ``twins``."""
    topic_ids: dict[str, str | None] = {}
    extents: dict[str, LogSpan] = {}
    for name in directory.directories:
        if topic_partition(name) is None or is_moved(name) or name == METADATA_PARTITION:
            continue
        path = Place(directory.path) / name
        topic_ids[name] = topic_id_at(path)
        with suppress(KsegError, OSError):
            if name in twins and (extent := log_extent(path, Scratch())) is not None:
                extents[name] = LogSpan(*extent, None)
    return CheckedDirectory(directory, topic_ids, extents)


class NodeCheck:
    """The checks of one node's log directories against each other. ``found``: those that were checked; ``unchecked``:
    those whose partitions were not checked."""

    def __init__(self, node: Node, found: list[CheckedDirectory], report: Report, unchecked: list[str]) -> None:
        self.node, self.found, self.report, self.unchecked = node, found, report, unchecked
        self.directories = [one.directory for one in found]
        absent = [] if node.server is None else report.absent
        self.roots = [*(one.path for one in self.directories), *absent]

    def judge(self, settings: CheckSettings) -> None:
        """Reports what keeps the node from starting on all these directories, a controller that has lost its metadata,
        and partitions that are on no disk, or on another one than they should be."""
        server, topics, report = self.node.server, self.node.topics, self.report
        self._judge_ids("cluster.id", None, lambda meta: meta.cluster_id)
        self._judge_ids("node.id", None if server is None else server.node_id, lambda meta: meta.number)
        wanted = None if server is None else server.metadata_log_dir
        places = [one.path for one in self.directories if one.holds_metadata]
        if wanted is None or os.path.realpath(wanted) not in self._real_paths():
            wanted = places[0] if places else None  # a copy of the directories
        for path in places:
            if wanted is not None and os.path.realpath(path) != os.path.realpath(wanted):
                text = f"the cluster's metadata belong into {wanted}, as metadata.log.dir or the first of log.dirs"
                # Nothing in that log has to be repaired.
                report.add("broker-would-not-start", Place(path) / METADATA_PARTITION, text, needs=DECISION)
        count = sum(len(one.topic_ids) for one in self.found)
        if topics is not None and topics.image.brokers and self.node.number is not None and count:
            if self.node.number not in {*topics.image.brokers, *topics.image.controllers}:
                known = some(sorted(map(str, topics.image.brokers)))
                text = f"node.id is {self.node.number}; __cluster_metadata has {known}"
                report.add("unknown-node", Place(self.directories[0].path) / META_PROPERTIES, text)
        if self.node.metadata is None and server is not None and "controller" in server.roles:
            if count and {os.path.realpath(path) for path in server.log_dirs} <= self._real_paths():
                text = f"{METADATA_PARTITION} is in none of log.dirs; partitions here: {count}"
                report.add("metadata-lost", self.directories[0].path, text)
        if settings.level != QUICK:
            self._judge_quorum()
        if settings.era.release < NEWEST:
            self._judge_bootstrap(MetadataRules(settings.era.release))
        _DiskCheck(self).judge()

    def _judge_ids(self, name: str, wanted: object, of: Callable[[MetaProperties], object]) -> None:
        source = "" if self.node.server is None else self.node.server.path
        for directory in self.directories:
            value = None if directory.meta is None else of(directory.meta)
            if value is None or META_PROPERTIES in directory.problems:
                continue
            if wanted is None:
                wanted, source = value, directory.path
            elif value != wanted:
                text = f"{name} is {value}, that of {source} is {wanted}"
                self.report.add("node-identity-mismatch", Place(directory.path) / META_PROPERTIES, text)

    def _judge_quorum(self) -> None:
        """Reports what contradicts the voters of the metadata log: those of the newest KRAFT_VOTERS, of
        controller.quorum.voters, or of quorum-state."""
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
            self._judge_own_voter(self.node.metadata, dynamic)
        configured = self.node.server.quorum_voters if self.node.server is not None and not dynamic else frozenset()
        before = frozenset(state.current_voters or ())
        if configured and before and configured != before:
            text = f"its voters are {_ids(before)}, those of controller.quorum.voters {_ids(configured)}"
            self.report.add("quorum-mismatch", path, text)
        if voters := dynamic.keys() or configured or before:
            for name, node in (("leaderId", state.leader_id), ("votedId", state.voted_id)):
                if node is not None and node >= 0 and node not in voters:
                    self.report.add("quorum-mismatch", path, f"{name} is {node}, the voters are {_ids(voters)}")

    def _judge_own_voter(self, directory: LogDirectory, voters: Mapping[int, str | None]) -> None:
        own = directory.meta and directory.meta.directory_id
        wanted = voters.get(-1 if self.node.number is None else self.node.number)
        is_broker = self.node.server is not None and not self.node.server.may_be_controller
        if not own or not wanted or own == wanted or is_broker:
            return
        code, text = "quorum-mismatch", f"directory.id is {own}, that of the voter with this node.id is {wanted}"
        if len(voters) == 1:
            code, text = "node-identity-mismatch", f"{text}, which is the only one: the node waits for it for ever"
        restored = self.node.restored_ids.get(directory.path)
        details = {"directoryId": restored} if restored else NO_DETAILS
        self.report.add(code, Place(directory.path) / META_PROPERTIES, text, details=details)

    def _judge_bootstrap(self, rules: MetadataRules) -> None:
        """Judges bootstrap.checkpoint, which each start up to 4.3 reads, whatever the metadata log holds."""
        from kseg.node.cluster_metadata import load_snapshot
        from kseg.node.metadata_image import FEATURE_RECORD

        for directory in self.directories if rules.reads_bootstrap else ():
            if BOOTSTRAP in directory.files:
                path = os.path.join(directory.path, BOOTSTRAP)
                with suppress(KsegError):  # reported for the file
                    image = load_snapshot(path, frozenset({FEATURE_RECORD}), is_whole=False).image
                    judge_features(path, image, rules, self.report)

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
            from kseg.node.cluster_metadata import quorum_of  # few metadata logs are damaged

            with suppress(KsegError, OSError):
                quorum = quorum_of(Place(self.node.metadata.path) / METADATA_PARTITION, self.node.server)
                topics = topics.at_start() if quorum.is_alone else None
        return topics if topics is not None and topics.image.brokers and topics.knows_partitions else None

    def strays(self) -> list[str] | None:
        """Returns the paths of partitions that the start sets aside; None if the metadata or the id of the node are not
        known."""
        metadata = self.at_start
        if metadata is None or self.node.number is None:
            return None if self.node.is_kraft else []

        def is_assigned(name: str, topic_id: str | None) -> bool:
            place = topic_partition(name)  # brokers look a partition up by its topic id
            partition = None if topic_id is None or place is None else metadata.partitions.get((topic_id, place[1]))
            return partition is not None and self.node.number in partition.replicas

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
        return bool(self.node.is_whole)

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


def start_of(node: NodeCheck, settings: CheckSettings) -> NodeStart:
    """Predicts a node's start from what was found in its directories."""
    of: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in node.report.effects.values():
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
    if starts and (because := list(_doubts(node, of[DOUBTFUL], settings))):
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
        [*deleted, *partitions[EMPTIED]], files, *node.absent({*node.report.absent, *offline}), node.releases,
    )  # fmt: skip


def _is_met(finding: Finding) -> bool:
    """Whether the start reads what is wrong."""
    if finding.code == "bad-metadata-snapshot":
        return is_newest(finding.file)
    return finding.code != "metadata-record-refused" or "reason" in finding.details


def _doubts(node: NodeCheck, doubtful: list[Finding], settings: CheckSettings) -> Iterator[str]:
    """Yields the reasons why it is not known whether the node starts."""
    yield from (_sentence(finding) for finding in doubtful if _is_met(finding))
    if settings.level == QUICK:
        yield "level quick reads too little"
    if node.report.ignored and any(KINDS[code].start for code in node.report.ignored):
        yield "--ignore omits findings that may prevent it"
    # A path may be the beginning of a longer name.
    roots = [re.escape(root.rstrip("/")) + r"(?![\w.-])" for root in node.roots]
    if any(re.search(root, failure) for failure in node.report.failures for root in roots):
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


class _DiskCheck:
    """Checks which disk of a node is which by its metadata log, and which partitions lie where."""

    def __init__(self, check: NodeCheck) -> None:
        self.check, self.report, self.node = check, check.report, check.node
        self.found = {one.directory.path: one for one in check.found}
        self.paths = {one.path: one for one in check.directories}
        restored = self.node.restored_ids
        ids = {one.path: one.meta.directory_id for one in check.directories if one.meta and one.meta.directory_id}
        self.path_of_id = {found: path for path, found in {**ids, **restored}.items()}
        """Log directories by the directory.id that they have, or have to have."""
        self.copies = self._copies()

    def judge(self) -> None:
        self._directory_ids()
        for copies in self.copies.values():
            if len(copies) > 1 and len({Place(path).parent for path in copies}) > 1:
                self._twice(copies)
        self._elsewhere()
        self._cleaner_offsets()
        self._only_replicas()
        self._copied_while_running()

    def _copies(self) -> dict[tuple[str, int, bool], list[str]]:
        """Returns the paths of each partition; a -future directory is another one."""
        found: defaultdict[tuple[str, int, bool], list[str]] = defaultdict(list)
        strays = frozenset(self.check.strays() or ())  # renamed before nodes compare their log directories
        for directory in self.check.directories:
            for name in directory.directories:
                place, path = topic_partition(name), Place(directory.path) / name
                if place is None or place[0] == METADATA_TOPIC or path in strays:
                    continue
                if not name.endswith(log_directory.ABANDONED_SUFFIXES):
                    found[(*place, is_moved(name))].append(path)
        return found

    def _assigned_path(self, path: str) -> str | None:
        """Returns the log directory to which the metadata assign the partition at a path; "" if it is not here, None if
        that is not known."""
        root, name = os.path.split(path)
        place = topic_partition(name)
        topic_id = self.found[root].topic_ids.get(name) if root in self.found else None
        assigned = None if place is None else self.node.assigned_id(topic_id, place[1])
        return None if assigned is None else self.path_of_id.get(assigned, "")

    def _directory_ids(self) -> None:
        seen: dict[str, str] = {}
        for directory in self.check.directories:
            own, path = directory.meta and directory.meta.directory_id, Place(directory.path) / META_PROPERTIES
            if not own or not is_uuid(own):
                continue
            if is_reserved_id(own):
                self.report.add("node-identity-mismatch", path, f"directory.id {own} is reserved")
            elif (before := seen.setdefault(own, directory.path)) != directory.path:
                self._same_id(own, self.paths[before], directory)
            elif directory.path in self.node.restored_ids and META_PROPERTIES not in directory.problems:
                others = (one for one in self.check.directories if one is not directory)
                if not any(one.meta and one.meta.directory_id == own for one in others):
                    text, details = told_id(directory, self.node)
                    self.report.add("directory-id-mismatch", path, f"directory.id is {own}{text}", details=details)

    def _same_id(self, own: str, first: LogDirectory, second: LogDirectory) -> None:
        """Reports two log directories with one id, of which the metadata may tell the right one."""
        wrong, right = (first, second) if first.path in self.node.restored_ids else (second, first)
        text, details = told_id(wrong, self.node)
        path = Place(wrong.path) / META_PROPERTIES
        message = f"directory.id {own} is also that of {right.path}{text}"
        self.report.add("node-identity-mismatch", path, message, details=details)

    def _twice(self, copies: list[str]) -> None:
        """Reports a partition in several log directories: which copy the metadata assign, and what each holds."""
        kept = next((path for path in copies if self._assigned_path(path) == Place(path).parent), None)
        held = {path: self._held(path) for path in copies}
        first = copies[0] if kept is None else kept
        for path in copies:
            if path == first:
                continue
            text = f"{first} and {path} are the same partition"
            details: dict[str, Any] = {"held": [self._copy_row(each, held[each]) for each in copies]}
            contents = "; ".join(f"{each} holds {_span_text(held[each])}" for each in (first, path))
            if kept is None:
                why = "do not tell which one is right" if self.node.topics is not None else "are not here"
                text += f"; the cluster's metadata {why}; {contents}"
            else:
                details["assigned"] = kept
                text += f"; the cluster's metadata assign {kept}; {contents}"
                longer, kept_span = held[path], held[kept]
                if longer is not None and (kept_span is None or longer.end > kept_span.end):
                    text += "; the copy that is not assigned ends later: compare both before you move one away"
                else:
                    details["otherRepair"] = ["mv", named_path(path), named_path(_place_away(path))]
                    text += f"; {path} is the one to move away"
            self.report.add("broker-would-not-start", path, text, details=details)

    def _held(self, path: str) -> LogSpan | None:
        root, name = os.path.split(path)
        return self.found[root].extents.get(name) if root in self.found else None

    @staticmethod
    def _copy_row(path: str, span: LogSpan | None) -> dict[str, Any]:
        start, end, records = (None, None, None) if span is None else span[:3]
        return {"directory": path, "logStartOffset": start, "logEndOffset": end, "records": records}

    def _elsewhere(self) -> None:
        """Reports partitions that lie in another log directory than the one to which they are assigned."""
        moved: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for (*_, is_future), copies in self.copies.items() if self.node.topics is not None else ():
            root, name = os.path.split(copies[0])
            assigned = self._assigned_path(copies[0])
            if not is_future and len(copies) == 1 and assigned and assigned != root:
                moved[root][name] = assigned
        for root, found in moved.items():
            if root in self.node.restored_ids:
                continue
            names = [f"{name} ({path})" for name, path in sorted(found.items())]
            text = (
                f"the cluster's metadata assign to another log directory: {some(names)}; a start takes them as they lie"
            )
            self._report_elsewhere(root, text, found)

    def _cleaner_offsets(self) -> None:
        """Reports cleaned offsets of partitions that lie in another log directory."""
        at = {key[:2]: copies[0] for key, copies in self.copies.items() if len(copies) == 1 and not key[2]}
        for directory in self.check.directories:
            entries = directory.offsets.get(CLEANER_OFFSETS, {})
            found = {place: at[place] for place in entries if place in at}
            found = {place: path for place, path in found.items() if Place(path).parent != directory.path}
            if not found:
                continue
            texts = []
            for place, path in sorted(found.items()):
                root = Place(path).parent
                own = self.paths[root].offsets.get(CLEANER_OFFSETS, {}).get(place)
                also = "no entry" if own is None else f"offset {own}"
                texts.append(f"{os.path.basename(path)} (offset {entries[place]}; {root} has {also})")
            text = f"entries of partitions in another log directory, of which the last one read counts: {some(texts)}"
            places = {os.path.basename(path): Place(path).parent for path in found.values()}
            self._report_elsewhere(Place(directory.path) / CLEANER_OFFSETS, text, places)

    def _report_elsewhere(self, file: str, text: str, places: Mapping[str, str]) -> None:
        rows = [{"partition": name, "logDirectory": path} for name, path in sorted(places.items())]
        self.report.add("partition-elsewhere", file, text, details={"partitions": rows})

    def _only_replicas(self) -> None:
        """Reports the partitions that no log directory has, and no other node for sure."""
        number = self.node.number
        gone: defaultdict[tuple[str | None, str], list[str]] = defaultdict(list)
        lacked: defaultdict[str, list[str]] = defaultdict(list)
        future = {key[:2] for key in self.copies if key[2]}
        for name, partition in self.check.missing() if number is not None else ():
            if topic_partition(name) in future or not {number} >= {*(partition.may_lead or partition.replicas)}:
                continue
            assigned = partition.directories[partition.replicas.index(number or 0)]
            if is_reserved_id(assigned):
                continue  # the node has not made it yet
            here = self.path_of_id.get(assigned)
            if here is not None and here not in self.paths:
                continue  # that directory has no file but partitions, and was not checked as a log directory
            if here is None and self.check.is_whole:
                gone[None, assigned].append(name)
            elif here is not None and self._is_bare(here):
                gone[here, assigned].append(name)
            elif here is not None and name in acknowledged(self.paths[here]):
                # Whoever names the configuration means the node as it will start; directories may be copied in part.
                if self.node.server is not None and self.check.is_whole:
                    gone[here, assigned].append(name)
                else:
                    lacked[here].append(name)
        for (here, assigned), names in gone.items():
            if here is not None:
                text = "a start makes empty ones, and what they held is lost"
            else:
                text = (
                    f"without the log directory of directory.id {assigned} a start leaves them empty, without a leader"
                )
            names.sort()
            text = (
                f"the only replica in sync would be this node's, and it is on none of its disks: {some(names)}; {text}"
            )
            details = {"partitions": names, "directoryId": assigned}
            self.report.add("only-replica-missing", here or self._place_of_loss(), text, details=details)
        for path, names in lacked.items():
            names.sort()
            text = (
                f"{some(names)} had records here by their high watermarks, and the only replica in sync: a start makes "
                "empty ones, and what they held is lost, unless this is a copy of a part of the log directory"
            )
            self.report.add("assigned-partition-missing", path, text, details={"partitions": names})

    def _is_bare(self, root: str) -> bool:
        """Whether a log directory is formatted, and nothing else."""
        directory = self.paths[root]
        has_logs = any(topic_partition(name) for name in directory.directories)
        return not has_logs and directory.files.isdisjoint(OFFSET_CHECKPOINTS)

    def _place_of_loss(self) -> str:
        """Returns the log directory that is in the place of a missing one, if one is, else that of the metadata."""
        registered = self.node.registered_directories
        new = [
            one.path for one in self.check.directories
            if one.meta and one.meta.directory_id not in registered and one.path not in self.node.restored_ids
        ]  # fmt: skip
        absent = [path for path in self.check.roots if path not in self.paths]
        for places in (absent, new):
            if len(places) == 1:
                return places[0]
        return self.check.roots[0] if self.node.metadata is None else self.node.metadata.path

    def _copied_while_running(self) -> None:
        """Reports several partitions of an unclean stop that end before their high watermarks."""
        rows, roots = list[dict[str, Any]](), dict[str, None]()
        for one in self.check.found:
            marks = {} if one.directory.was_clean else one.directory.offsets.get(HIGH_WATERMARKS, {})
            for name, span in one.extents.items():
                place = topic_partition(name)
                if place is not None and (offset := marks.get(place)) is not None and offset > span.end:
                    rows.append({"partition": name, "highWatermark": offset, "logEndOffset": span.end})
                    roots[one.directory.path] = None
        if len(rows) < _LEAST_BEYOND:
            return
        missing = sum(row["highWatermark"] - row["logEndOffset"] for row in rows)
        text = (
            f"{plural(len(rows), 'partition ends', 'partitions end')} before the high watermark, by "
            f"{plural(missing, 'offset', 'offsets')} in all, after a stop that was not clean: the files were copied "
            "one after the other while a broker wrote, or the machine lost what was not yet on disk"
        )
        self.report.add("copied-while-running", next(iter(roots)), text, details={"partitions": rows})


def _span_text(span: LogSpan | None) -> str:
    if span is None:
        return "no log that can be read"
    ends = f"log start {span.start}, log end {span.end}"
    return ends if span.records is None else f"{plural(span.records, 'record', 'records')} ({ends})"


def _place_away(path: str) -> str:
    """Returns a free name beside the log directory, out of all log directories."""
    root, name = os.path.split(Place(path).absolute)
    number = 0
    target = f"{root}.{name}"
    while Place(target).lexists():
        number += 1
        target = f"{root}.{name}.{number}"
    return target
