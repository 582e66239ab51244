"""Checks what surrounds the partitions of a log directory: owners of files, policies, high watermarks, lone copies.

Sources: LogManager, ReplicaManager.checkpointHighWatermarks, GroupCoordinator and KafkaBasedLog of Kafka 4.4.0;
KafkaStore of Schema Registry 7.9.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator

from kseg.errors import KsegError
from kseg.formats.suffixes import LOG
from kseg.node.log_directory import LogDirectory, is_moved, purpose_of_compaction
from kseg.node.node import Node
from kseg.quantities import plural
from kseg.segment.files import METADATA_TOPIC, OWN_PREFIX, list_segments, own_name, parse_partition_name
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS, plain_epochs
from kseg.sidefiles.text_files import MAX_TEXT_BYTES
from kseg.stores.place import Place
from kseg.verification.report import Report

_OF_CONFLUENT = (".tierstate", ".tierstate.mutable", ".checksum", ".checksums", ".adler")
"""Suffixes of files of tiered storage and of checksums that Confluent Server writes."""


def unknown_text(names: list[str]) -> str:
    """Returns a sentence on files that Kafka's brokers do not know, by who has made them."""
    makers = {
        "deleted, but still open over NFS": [name for name in names if name.startswith(".nfs")],
        "of Confluent Server": [name for name in names if name.endswith(_OF_CONFLUENT)],
    }
    known = {name for some_names in makers.values() for name in some_names}
    makers["that no broker knows"] = [name for name in names if name not in known]
    return "; ".join(f"files {who}: {some(found)}" for who, found in makers.items() if found)


def judge_surroundings(directory: LogDirectory, node: Node, report: Report) -> None:
    """Checks one log directory of a node."""
    _owners(directory, report)
    _policies(directory, node, report)
    _high_watermarks(directory, node, report)
    _lone_copies(directory, node, report)
    _late_starts(directory, node, report)


status_of = os.stat
"""Owner and mode of a file or directory."""


def _owners(directory: LogDirectory, report: Report) -> None:
    """Reports partitions, and files beside them, that the owner of the log directory cannot write."""
    if Place(directory.path).tree is not None:
        return
    root = status_of(directory.path)
    if root.st_uid == 0:
        return
    own = [name for name in directory.files if not name.startswith(OWN_PREFIX)]
    partitions = [name for name in directory.directories if parse_partition_name(name) is not None]
    places = [(directory.path, own), *((Place(directory.path) / name, None) for name in partitions)]
    for path, names in places:
        others: Counter[int] = Counter()
        for status in _statuses(path, names):
            if status.st_uid != root.st_uid and not _may_write(status, root.st_gid):
                others[status.st_uid] += 1
        if others:
            owners = ", ".join(map(str, sorted(others)))
            text = f"{plural(others.total(), 'entry', 'entries')} of user {owners}, whom user {root.st_uid}, who owns "
            text += "the log directory, cannot write"
            report.add("other-owner", path, text, details={"owner": root.st_uid, "count": others.total()})


def _statuses(path: str, names: list[str] | None) -> Iterator[os.stat_result]:
    """Yields those of files in a directory; None: of all, and of the directory. What has gone is left out."""
    try:
        if names is None:
            yield status_of(path)
            names = os.listdir(path)
    except OSError:
        return
    for name in names:
        try:
            found = status_of(Place(path) / name)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            yield found


def _may_write(status: os.stat_result, group: int) -> bool:
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid == group))


def _policies(directory: LogDirectory, node: Node, report: Report) -> None:
    """Reports topics whose newest record by key counts, and whose old records retention deletes."""
    seen = set[str]()
    for name in directory.directories:
        partition = node.partition(Place(directory.path) / name)
        topic = partition.topic
        if topic is None or topic in seen or is_moved(name) or (purpose := purpose_of_compaction(topic)) is None:
            continue
        seen.add(topic)
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
        path = Place(directory.path) / name
        if name.endswith("-future") and (own := own_name(path)) != name and own not in here and _holds_records(path):
            text = f"no directory here has {own}: a start makes an empty one, and cuts this copy of it to that"
            report.add("only-future-copy", path, text)


def _late_starts(directory: LogDirectory, node: Node, report: Report) -> None:
    """Reports logs that begin behind their first leader epoch: retention moves that along with the log start."""
    starts = directory.offsets.get(LOG_STARTS, {})
    for name in directory.directories:
        path, place = Place(directory.path) / name, parse_partition_name(name)
        if place is None or place in starts or is_moved(name) or place[0] == METADATA_TOPIC:
            continue
        base, epochs = _first_base(path), _first_epoch(path)
        if base is None or epochs is None or not epochs < base:
            continue
        if node.partition(path).setting("remote.storage.enable") != "true":  # the remote log begins there
            text = f"it begins at offset {base}, its first leader epoch at {epochs}: offsets {epochs} to {base - 1} "
            text += "are gone, and no log start offset shows that they were deleted"
            report.add("log-begins-late", path, text, offset=base)


def _first_base(path: str) -> int | None:
    """Returns the base offset of the first segment; None without one, or if it cannot be read."""
    try:
        return min((file.base_offset or 0 for file in list_segments(path) if file.kind == LOG), default=None)
    except KsegError:
        return None


def _first_epoch(path: str) -> int | None:
    """Returns where the first leader epoch begins; None if that is not known."""
    try:
        entries = plain_epochs((Place(path) / LEADER_EPOCHS).head(MAX_TEXT_BYTES))
    except OSError:
        return None
    return entries[0].start_offset if entries else None
