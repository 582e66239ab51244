"""Checks what surrounds the partitions of a log directory: owners of files, policies, high watermarks, lone copies.

Sources: LogManager, ReplicaManager.checkpointHighWatermarks, GroupCoordinator and KafkaBasedLog of Kafka 4.4.0;
KafkaStore of Schema Registry 7.9.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain

from kseg.node.log_directory import LIVE_BY_COMPACTION, LogDirectory, is_moved
from kseg.node.node import Node
from kseg.quantities import plural
from kseg.segment.files import METADATA_TOPIC, OWN_PREFIX, own_name, parse_partition_name
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kseg.sidefiles.text_files import META_PROPERTIES
from kseg.stores.place import Place
from kseg.verification.partition import LogSpan, Rule
from kseg.verification.report import Report

_OF_CONFLUENT = (".tierstate", ".tierstate.mutable", ".checksum", ".checksums", ".adler")
"""Suffixes of files of tiered storage and of checksums that Confluent Server writes."""


_ROOT = 0
"""The user who can write everything."""
_Status = Callable[..., os.stat_result]


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
    own = (Place(directory.path) / name for name in directory.files if not name.startswith(OWN_PREFIX))
    _owners(directory.path, (place.status for place in own), directory.owner, report)
    _room(directory, report)
    _policies(directory, node, report)
    _high_watermarks(directory, node, report)
    _lone_copies(directory, node, report)


class OwnerRule(Rule):
    """Reports a partition that the owner of its log directory cannot write."""

    def finish(self) -> None:
        partition = self.partition
        if partition.listing is not None:
            place = Place(partition.name)
            asked = chain([place.status], (entry.stat for entry in partition.listing.files.values()))
            _owners(place, asked, partition.broker.owner, self.report)


def _owners(path: str, asked: Iterable[_Status], owner: tuple[int, int] | None, report: Report) -> None:
    """Reports files and directories that the owner of the log directory cannot write; ``asked`` gives their status."""
    if owner is None or owner[0] == _ROOT:
        return
    (user, group), others = owner, Counter[int]()
    for ask in asked:
        with suppress(OSError):  # it has gone
            status = ask(follow_symlinks=False)
            is_ours = status.st_uid == user or stat.S_ISLNK(status.st_mode)
            if not is_ours and not _may_write(status, group):
                others[status.st_uid] += 1
    if others:
        owners = ", ".join(map(str, sorted(others)))
        text = f"{plural(others.total(), 'entry', 'entries')} of user {owners}, whom user {user}, who owns the log "
        text += "directory, cannot write"
        report.add("other-owner", path, text, details={"owner": user, "count": others.total()})


_BLOCK_BYTES = 4096


def _room(directory: LogDirectory, report: Report) -> None:
    """Reports a log directory whose file system has less space than any start takes.

    Brokers of 4.4.0 with 3 partitions end at once with 4 KiB left after a clean stop, and with 16 KiB after a kill.
    """
    if directory.owner is None or META_PROPERTIES not in directory.files or not hasattr(os, "statvfs"):
        return  # of no broker here
    with suppress(OSError):
        status = os.statvfs(directory.path)
        if not status.f_blocks or status.f_flag & os.ST_RDONLY:
            return  # a place to keep copies
        free = (status.f_bfree if directory.owner[0] == _ROOT else status.f_bavail) * status.f_frsize
        needed = _room_of_start(directory)
        if free < needed:
            text = f"{free} bytes are free; a start writes at least {needed}"
            report.add("disk-full", directory.path, text, details={"freeBytes": free, "neededBytes": needed})


def _room_of_start(directory: LogDirectory) -> int:
    """Returns the least space that a start takes: for a new checkpoint beside the old one; for quorum-state and records
    of the metadata log; after an unclean stop for a snapshot of producers in each partition. Raises OSError."""
    sizes = (Place(directory.path) / name for name in directory.offsets)
    checkpoint = max((-(-place.size() // _BLOCK_BYTES) for place in sizes), default=0)
    recovered = 0 if directory.was_clean else sum(map(_is_partition, directory.directories))
    return _BLOCK_BYTES * (max(checkpoint, 1) + directory.holds_metadata + recovered)


def _is_partition(name: str) -> bool:
    return not is_moved(name) and parse_partition_name(name) is not None


def _may_write(status: os.stat_result, group: int) -> bool:
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid == group))


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


def judge_late_starts(directory: LogDirectory, node: Node, extents: Mapping[str, LogSpan], report: Report) -> None:
    """Reports logs that begin behind their first leader epoch: retention moves that along with the log start.

    ``extents``: those of the partitions that were checked, by name.
    """
    if LOG_STARTS in (*directory.problems, *directory.unread):
        return
    starts = directory.offsets.get(LOG_STARTS, {})
    for name, span in extents.items():
        base, epoch = span.start, span.first_epoch
        if epoch is None or not epoch < base or parse_partition_name(name) in starts:
            continue
        path = Place(directory.path) / name
        if node.partition(path).setting("remote.storage.enable") != "true":  # the remote log begins there
            text = f"it begins at offset {base}, its first leader epoch at {epoch}: offsets {epoch} to {base - 1} "
            text += "are gone, and no log start offset shows that they were deleted"
            report.add("log-begins-late", path, text, offset=base)
