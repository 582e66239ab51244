"""Checks single side files: an index against its .log, all others by themselves."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kseg.formats.suffixes import LOG, SNAPSHOT, TRANSACTION_INDEX
from kseg.segment.files import CLEAN_SHUTDOWN, QUORUM_STATE, SegmentFile, segment_file
from kseg.segment.survey import QUICK
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.sidefiles.kinds import SideFile, read_items
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS
from kseg.sidefiles.meta_properties import META_PROPERTIES
from kseg.sidefiles.partition_metadata import PARTITION_METADATA
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores import trees
from kseg.stores.source import open_source
from kseg.stores.unreadable import named
from kseg.verification.indexes import SUFFIXES, IndexRule
from kseg.verification.partition import CheckedSegment, judge_segments

if TYPE_CHECKING:
    from kseg.verification.partition import Partition

SHOWN_PROBLEMS = 1000
"""Limit of problems reported for one file; random bytes give one per entry."""

_CODES = {
    TRANSACTION_INDEX: "transaction-index-damaged",
    SNAPSHOT: "producer-snapshot-damaged",
    LEADER_EPOCHS: "leader-epochs-damaged",
    ".leader_epoch_checkpoint": "leader-epochs-damaged",
    **dict.fromkeys(OFFSET_CHECKPOINTS, "unreadable-checkpoint"),
    PARTITION_METADATA: "bad-partition-metadata",
    META_PROPERTIES: "bad-meta-properties",
    CLEAN_SHUTDOWN: "bad-clean-shutdown",
    QUORUM_STATE: "bad-quorum-state",
}
_OWN_CODES = {("leader-epochs-damaged", "unsorted"): "leader-epochs-unsorted"}


def judge_side_file(partition: "Partition", side: SideFile, progress: Callable[[int], None]) -> None:
    """Checks one side file of any kind. Raises PathError if it cannot be opened."""
    if side.kind in SUFFIXES:
        _judge_index(partition, side, progress)
        return
    code, count = _CODES[side.kind], 0
    with open_source(side.path) as source:
        for item in read_items(side.kind, source.buffer, side.base_offset):
            if isinstance(item, SideFileProblem) and item.is_damage:
                own = _OWN_CODES.get((code, item.code), code)
                partition.report.add(own, side.path, item.message, item.position, item.length)
                count += 1
            if count == SHOWN_PROBLEMS:
                break
        if source.current_size() < source.size:
            partition.report.add("file-shrank", side.path, f"{source.current_size()} of {source.size} bytes are left")
        source.look_for_unreadable()
        if source.unreadable:
            first, behind = source.unreadable[0][0], source.unreadable[-1][1]
            partition.report.add("unreadable-bytes", side.path, named(source.unreadable), first, behind - first)
        _count(partition, source.size)
        progress(source.size)


def _judge_index(partition: "Partition", side: SideFile, progress: Callable[[int], None]) -> None:
    rule = IndexRule(partition, {side.kind: side.path})
    log = side.beside(LOG)
    if partition.level != QUICK and not side.is_remote_copy and trees.isfile(log):
        judge_segments(partition, [segment_file(log)], [rule], progress)
        return
    with open_source(side.path) as source:
        size = source.size
    file = SegmentFile(log, LOG, side.leftover, side.base_offset, None, partition.topic, partition.number)
    segment = CheckedSegment(file, 0, True)
    partition.level = QUICK
    rule.begin(segment)
    rule.end(segment)
    _count(partition, size)
    progress(size)


def _count(partition: "Partition", size: int) -> None:
    partition.report.totals.files += 1
    partition.report.totals.bytes += size
