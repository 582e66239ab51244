"""Checks each log directory by itself: its own files, names in it, partitions that contradict each other, owners of
files, room on the disk, policies, high watermarks and lone copies.

Sources: LogManager, LocalLog.parseTopicPartitionName, CheckpointFile, MetaProperties, ReplicaManager, GroupCoordinator
and KafkaBasedLog of Kafka 4.3.1 and 4.4.0; KafkaStore of Schema Registry 7.9.
"""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import EACCES
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import ERROR, TOPIC_ID
from kseg.node.log_directory import LIVE_BY_COMPACTION, METADATA_PARTITION, LogDirectory, is_moved
from kseg.node.node import Node, Nodes
from kseg.quantities import plural
from kseg.segment.files import (
    BOOTSTRAP,
    LOCK_NAME,
    LOG_DIRECTORY_FILES,
    METADATA_TOPIC,
    OWN_PREFIX,
    REMOTE_INDEX_CACHE,
    own_name,
    parse_partition_name,
)
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, LOG_STARTS, OFFSET_CHECKPOINTS, RECOVERY_POINTS
from kseg.sidefiles.text_files import META_PROPERTIES, PARTITION_METADATA, integer, missing_in_kraft
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.verification.metadata import judge_snapshot
from kseg.verification.partition import LogSpan, PartitionCheck, add_unread, unknown_text
from kseg.verification.report import NO_DETAILS, Details, Report

_ROOT = 0
"""The user who can write everything."""
_Status = Callable[..., os.stat_result]
KNOWN_FILES = LOG_DIRECTORY_FILES | {LOCK_NAME, BOOTSTRAP}


def judge_entries(directory: LogDirectory, node: Node, report: Report, level: int) -> None:
    """Checks the entries of a log directory: its own files, and which directories it has; not what these hold."""
    _own_files(directory, node, report, level)
    _directory_names(directory, report)
    own = (Place(directory.path) / name for name in directory.files if not name.startswith(OWN_PREFIX))
    _owners(directory.path, (place.status for place in own), directory.owner, report)
    _room(directory, report)
    _policies(directory, node, report)
    _high_watermarks(directory, node, report)
    _lone_copies(directory, node, report)
    here = {name for one in node.directories for name in one.directories}
    if absent := sorted(name for name in acknowledged(directory) if name not in here):
        text = f"in the checkpoint, but without a directory: {some(absent)}"
        report.add("partition-missing", Place(directory.path) / HIGH_WATERMARKS, text)
    if node.metadata is directory and lacks_topics(node):
        lacking, topics = _lacking_topics(node)
        text = f"it lacks {len(lacking)} of the {len(topics)} topics with partitions here: {some(sorted(lacking))}"
        report.add("metadata-lost", Place(directory.path) / METADATA_PARTITION, text)
    if not directory.was_clean and not is_output(directory, node):
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
    if META_PROPERTIES not in directory.files and not is_output(directory, node):
        # Partitions of a release with KRaft (since 2.8) have partition.metadata.
        needs_it = node.is_kraft or any(
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


def is_output(directory: LogDirectory, node: Node) -> bool:
    """Whether its partitions are for another log directory: kseg says so, or it has no files but those that kseg, too,
    writes beside copies, and no configuration names it."""
    if META_PROPERTIES in directory.files or node.is_configured(directory.path):
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


class CheckedDirectory(NamedTuple):
    """A log directory whose partitions were checked; ``topic_ids``: by the names of its partitions but
    __cluster_metadata-0 and moved ones, None if there is no readable partition.metadata; ``extents``: by
    name."""

    directory: LogDirectory
    topic_ids: dict[str, str | None]
    extents: dict[str, LogSpan]


def judge_topic_ids(checked: CheckedDirectory, node: Node, report: Report) -> None:
    """Compares the topic ids of partitions with each other.

    Topics in __cluster_metadata are skipped: the check of each partition compares them.
    """
    known = node.topics.ids if node.topics is not None else {}
    of_topic: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    of_id: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, topic_id in sorted(checked.topic_ids.items()):
        if topic_id is not None:
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
            path = Place(checked.directory.path) / name / PARTITION_METADATA
            report.add("topic-id-mismatch", path, text, details={"topicId": topic_id}, needs=TOPIC_ID)


def judge_absent(path: str, nodes: Nodes, report: Report) -> bool:
    """Reports a log directory of a configuration that is missing or empty. Returns whether it is."""
    try:
        if not any(server.names(path) for server in nodes.servers) or (Place(path).is_dir() and Place(path).names()):
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


def judge_owner(partition: PartitionCheck) -> None:
    """Reports a partition that the owner of its log directory cannot write."""
    if partition.listing is not None:
        place = Place(partition.name)
        asked = chain([place.status], (entry.stat for entry in partition.listing.files.values()))
        _owners(place, asked, partition.broker.owner, partition.report)


def _owners(path: str, asked: Iterable[_Status], owner: tuple[int, int] | None, report: Report) -> None:
    """Reports files and directories that the owner of the log directory cannot write; ``asked`` gives their status."""
    if owner is None or owner[0] == _ROOT:
        return
    (user, group), others = owner, Counter[int]()
    for ask in asked:
        with suppress(OSError):  # it has gone
            status = ask(follow_symlinks=False)
            mode = status.st_mode
            may_write = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and status.st_gid == group)
            if not (status.st_uid == user or stat.S_ISLNK(mode) or may_write):
                others[status.st_uid] += 1
    if others:
        owners = ", ".join(map(str, sorted(others)))
        text = f"{plural(others.total(), 'entry', 'entries')} of user {owners}, whom user {user}, who owns the log "
        text += "directory, cannot write"
        report.add("other-owner", path, text, details={"owner": user, "count": others.total()})


_BLOCK_BYTES = 4096


def _room(directory: LogDirectory, report: Report) -> None:
    """Reports a log directory whose file system has less space than any start takes: for a new checkpoint beside the
    old one; for quorum-state and records of the metadata log; after an unclean stop for a snapshot of producers in each
    partition.

    Brokers of 4.4.0 with 3 partitions end at once with 4 KiB left after a clean stop, and with 16 KiB after a kill.
    """
    if directory.owner is None or META_PROPERTIES not in directory.files or not hasattr(os, "statvfs"):
        return  # of no broker here
    with suppress(OSError):
        status = os.statvfs(directory.path)
        if not status.f_blocks or status.f_flag & os.ST_RDONLY:
            return  # a place to keep copies
        free = (status.f_bfree if directory.owner[0] == _ROOT else status.f_bavail) * status.f_frsize
        sizes = ((Place(directory.path) / name).size() for name in directory.offsets)
        checkpoint = max((-(-size // _BLOCK_BYTES) for size in sizes), default=0)
        partitions = [name for name in directory.directories if not is_moved(name) and parse_partition_name(name)]
        recovered = 0 if directory.was_clean else len(partitions)
        needed = _BLOCK_BYTES * (max(checkpoint, 1) + directory.holds_metadata + recovered)
        if free < needed:
            text = f"{free} bytes are free; a start writes at least {needed}"
            report.add("disk-full", directory.path, text, details={"freeBytes": free, "neededBytes": needed})


def _policies(directory: LogDirectory, node: Node, report: Report) -> None:
    """Reports topics whose newest record by key counts, and whose old records retention deletes."""
    seen = set[str]()
    for name in directory.directories:
        topic, _ = parse_partition_name(name) or (None, None)
        if topic is None or topic in seen or is_moved(name) or (purpose := LIVE_BY_COMPACTION.get(topic)) is None:
            continue
        seen.add(topic)
        partition = node.partition(Place(directory.path) / name)
        policy = partition.policy
        if policy.is_known and policy.is_compacted is False:
            text = f"cleanup.policy of {topic} is {policy.text!r}: retention deletes {purpose}"
            report.add("topic-not-compacted", partition.path, text, details={"topic": topic, "policy": policy.text})


def _high_watermarks(directory: LogDirectory, node: Node, report: Report) -> None:
    """Reports partitions without a high watermark after a clean stop, which writes those of all."""
    known = directory.offsets.get(HIGH_WATERMARKS, {})
    if not directory.was_clean or HIGH_WATERMARKS in (*directory.problems, *directory.unread):
        return
    if {HIGH_WATERMARKS, RECOVERY_POINTS}.isdisjoint(directory.files):
        return  # a stop writes both: this is a part of a log directory
    lacking = []
    for name in directory.directories:
        place = None if is_moved(name) else parse_partition_name(name)
        if place is None or place in known or place[0] == METADATA_TOPIC:
            continue
        assignment = node.partition(Place(directory.path) / name).assignment
        is_single = assignment is not None and len(assignment.replicas) == 1
        if not is_single and _holds_records(Place(directory.path) / name):
            lacking.append(name)
    if lacking:
        what = "no entry for" if HIGH_WATERMARKS in directory.files else f"there is no {HIGH_WATERMARKS}; it had"
        text = f"{what} {some(lacking)}: their high watermarks begin at the log start"
        report.add("high-watermark-missing", Place(directory.path) / HIGH_WATERMARKS, text)


def _holds_records(path: str) -> bool:
    try:
        with Place(path).entries() as entries:
            return any(entry.name.endswith(".log") and entry.stat().st_size for entry in entries)
    except OSError:
        return False


def _lone_copies(directory: LogDirectory, node: Node, report: Report) -> None:
    """Reports -future directories of partitions that no disk has."""
    here = {name for one in node.directories for name in one.directories}
    for name in directory.directories:
        if not name.endswith("-future"):
            continue
        path = Place(directory.path) / name
        if (own := own_name(path)) != name and own not in here and _holds_records(path):
            text = f"no directory here has {own}: a start makes an empty one, and cuts this copy of it to that"
            report.add("only-future-copy", path, text)


def judge_late_starts(checked: CheckedDirectory, node: Node, report: Report) -> None:
    """Reports logs that begin behind their first leader epoch: retention moves that along with the log start."""
    directory = checked.directory
    if LOG_STARTS in (*directory.problems, *directory.unread):
        return
    starts = directory.offsets.get(LOG_STARTS, {})
    for name, span in checked.extents.items():
        base, epoch = span.start, span.first_epoch
        if epoch is None or not epoch < base or parse_partition_name(name) in starts:
            continue
        path = Place(directory.path) / name
        if node.partition(path).setting("remote.storage.enable") != "true":  # the remote log begins there
            text = f"it begins at offset {base}, its first leader epoch at {epoch}: offsets {epoch} to {base - 1} "
            text += "are gone, and no log start offset shows that they were deleted"
            report.add("log-begins-late", path, text, offset=base)
