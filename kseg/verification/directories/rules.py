"""Checks a log directory itself: its own files, names in it, and partitions that contradict each other.

Sources: LogManager.loadLogs, LocalLog.parseTopicPartitionName, CheckpointFile, MetaProperties of Kafka 4.3.1.
"""

import os
from collections import defaultdict
from collections.abc import Mapping

from kseg.changes.journal import OPEN, UNDOING, journals
from kseg.changes.new_directories import is_left
from kseg.changes.resumable_output import OUTPUT_MARK
from kseg.errors import KsegError
from kseg.findings.table import ERROR, TOPIC_ID
from kseg.logdir.log_directory import METADATA_PARTITION, LogDirectory, is_moved
from kseg.segment.files import BOOTSTRAP, LOG_DIRECTORY_FILES, METADATA_TOPIC, OWN_PREFIX, parse_partition_name
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, OFFSET_CHECKPOINTS
from kseg.sidefiles.lines import integer
from kseg.sidefiles.meta_properties import META_PROPERTIES, missing_in_kraft
from kseg.sidefiles.partition_metadata import PARTITION_METADATA
from kseg.sidefiles.remote_index_names import DIRECTORY as REMOTE_INDEX_CACHE
from kseg.stores import trees
from kseg.verification.report import Report

KNOWN_FILES = LOG_DIRECTORY_FILES | {".lock", BOOTSTRAP}


def judge_entries(directory: LogDirectory, report: Report, level: int) -> None:
    """Checks the entries of a log directory: its own files, and which directories it has; not what these hold."""
    _own_files(directory, report, level)
    _directory_names(directory, report)
    _absent_partitions(directory, report)
    if lacks_topics(directory):
        lacking, topics = _lacking_topics(directory)
        text = f"it lacks {len(lacking)} of the {len(topics)} topics with partitions here: {some(sorted(lacking))}"
        report.add("metadata-lost", os.path.join(directory.path, METADATA_PARTITION), text)
    if not directory.was_clean and not _is_output(directory):
        report.add("unclean-shutdown", directory.path, "there is no .kafka_cleanshutdown: a broker runs, or was killed")


def lacks_topics(directory: LogDirectory) -> bool:
    """Whether the cluster's metadata lack most topics of the partitions, and more than one: records are missing there,
    or the metadata are another cluster's."""
    lacking, topics = _lacking_topics(directory)
    return len(lacking) > max(1, len(topics) // 2)


def _lacking_topics(directory: LogDirectory) -> tuple[set[str], set[str]]:
    """Returns the topics of partitions that __cluster_metadata lacks, and all topics of partitions."""
    topics = {
        parsed[0] for name in directory.directories if not is_moved(name) and (parsed := topic_partition(name))
    } - {METADATA_TOPIC}  # fmt: skip
    known = directory.topics
    return (set() if known is None or known.lacking else topics - known.ids.keys()), topics


def _own_files(directory: LogDirectory, report: Report, level: int) -> None:
    for name, problems in directory.problems.items():
        code = "unreadable-checkpoint" if name in OFFSET_CHECKPOINTS else "bad-meta-properties"
        first = problems[0]
        text = first.message if len(problems) == 1 else f"{first.message}; further such problems: {len(problems) - 1}"
        report.add(code, os.path.join(directory.path, name), text, first.position, first.length)
    if META_PROPERTIES not in directory.files and _needs_meta_properties(directory) and not _is_output(directory):
        text = f"no {META_PROPERTIES}: a node of KRaft does not start without it, one of ZooKeeper makes a new one"
        report.add("bad-meta-properties", directory.path, text)
    if METADATA_PARTITION in directory.directories and META_PROPERTIES not in directory.problems and directory.meta:
        if missing := missing_in_kraft(directory.meta):
            text = f"{missing}: a node of KRaft does not start with it"
            report.add("bad-meta-properties", os.path.join(directory.path, META_PROPERTIES), text)
    if BOOTSTRAP in directory.files:
        from kseg.verification.directories.snapshots import judge_snapshot

        judge_snapshot(os.path.join(directory.path, BOOTSTRAP), report, level)
    _pending(directory, report)
    unknown = sorted(
        name for name in directory.files - KNOWN_FILES if not name.endswith(".tmp") and not name.startswith(OWN_PREFIX)
    )
    if unknown:
        report.add("unknown-file", directory.path, f"files that no broker knows: {some(unknown)}")


def _pending(directory: LogDirectory, report: Report) -> None:
    """Reports interrupted changes of kseg in the log directory."""
    if not any(name.startswith(OWN_PREFIX) for name in directory.files):
        return
    try:
        for journal in journals(directory.path):
            if journal.state in (OPEN, UNDOING):
                text = f"{journal.command!r} was interrupted: some partitions may be changed, others not"
                report.add("pending-change", journal.path, text)
    except KsegError as error:
        report.add("pending-change", directory.path, str(error))


def _is_output(directory: LogDirectory) -> bool:
    """Whether kseg has made the partitions for the log directory of another cluster, and no broker has used this
    one."""
    return OUTPUT_MARK in directory.files and META_PROPERTIES not in directory.files


def _needs_meta_properties(directory: LogDirectory) -> bool:
    """Whether there are partitions of a release with KRaft (since 2.8), which have partition.metadata."""
    return directory.is_kraft or any(
        parse_partition_name(name) is not None and trees.lexists(os.path.join(directory.path, name, PARTITION_METADATA))
        for name in directory.directories
    )


def _directory_names(directory: LogDirectory, report: Report) -> None:
    seen: dict[tuple[str, int, str], str] = {}
    for name in directory.directories:
        path = os.path.join(directory.path, name)
        if name.startswith(OWN_PREFIX) and is_left(directory.path, name):
            text = "new partitions were being written when a command was stopped: brokers do not start with its folder"
            report.add("pending-change", path, text, severity=ERROR)
        if name == REMOTE_INDEX_CACHE or name.startswith(OWN_PREFIX):
            continue
        parsed = topic_partition(name)
        if parsed is None:
            text = f"the directory {name} is not named topic-partition, as all directories must be"
            report.add("broker-would-not-start", path, text)
            continue
        if parsed[0] == METADATA_TOPIC:
            continue
        ending = name.rpartition("-")[2] if is_moved(name) else ""
        if ending in ("delete", "stray", "future"):
            report.add(f"{ending}-directory", path, f"{parsed[0]}-{parsed[1]} under a name that ends in -{ending}")
        if ending in ("", "future"):
            before = seen.setdefault((*parsed, ending), name)
            if before != name:
                report.add("broker-would-not-start", path, f"{before} and {name} are the same partition")


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


def _absent_partitions(directory: LogDirectory, report: Report) -> None:
    """Reports partitions with acknowledged records whose directory is missing."""
    marks = directory.offsets.get(HIGH_WATERMARKS, {})
    here = set(directory.directories)
    listed = [f"{topic}-{number}" for (topic, number), offset in marks.items() if offset > 0]
    absent = sorted(name for name in listed if name not in here)
    if absent:
        text = f"in the checkpoint, but without a directory: {some(absent)}"
        report.add("partition-missing", os.path.join(directory.path, HIGH_WATERMARKS), text)


def judge_topic_ids(directory: LogDirectory, ids: Mapping[str, str], report: Report) -> None:
    """Compares the topic ids of partitions (``ids``: topic id by directory name) with each other.

    Topics in __cluster_metadata are skipped: the check of each partition compares them.
    """
    known = directory.topics.ids if directory.topics is not None else {}
    of_topic: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    of_id: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, topic_id in sorted(ids.items()):
        topic = name.rpartition("-")[0]
        of_topic[topic][topic_id].append(name)
        of_id[topic_id][topic].append(name)
    for topic, found in of_topic.items():
        if len(found) > 1 and topic not in known:
            _, *fewer = sorted(found.items(), key=lambda item: -len(item[1]))
            for topic_id, names in fewer:
                text = f"topic id {topic_id}, other partitions of {topic} have another"
                _mismatch(directory, names, topic_id, text, report)
    for topic_id, topics in of_id.items():
        if len(topics) > 1:
            for topic, names in topics.items():
                if topic not in known:
                    others = some(sorted(topics.keys() - {topic}))
                    text = f"topic id {topic_id} is that of {others}, too"
                    _mismatch(directory, names, topic_id, text, report)


def _mismatch(directory: LogDirectory, names: list[str], topic_id: str, text: str, report: Report) -> None:
    for name in names:
        path = os.path.join(directory.path, name, PARTITION_METADATA)
        report.add("topic-id-mismatch", path, text, details={"topicId": topic_id}, needs=TOPIC_ID)
