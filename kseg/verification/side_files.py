"""Checks side files by themselves, and files of a partition that are not part of its log."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.findings.table import ERROR
from kseg.formats.suffixes import (
    CLEANED,
    DELETED,
    LEFTOVER_SUFFIXES,
    LOG,
    LOG_SUFFIXES,
    SIDE_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TRANSACTION_INDEX,
)
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.segment.files import CLEAN_SHUTDOWN, PARTITION_FILES, QUORUM_STATE, SegmentFile, segment_file, segment_stem
from kseg.segment.paths import some
from kseg.segment.survey import FULL, QUICK, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, OFFSET_CHECKPOINTS
from kseg.sidefiles.kinds import SideFile, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import META_PROPERTIES, PARTITION_METADATA, integer
from kseg.stores import trees
from kseg.stores.source import named, open_source
from kseg.verification.gaps import shows_cleaning
from kseg.verification.indexes import SUFFIXES, IndexRule
from kseg.verification.partition import (
    CheckedSegment,
    Partition,
    Rule,
    add_unread_for,
    judge_segments,
    partition_for_file,
)

# Checks files of a partition that are not part of its log, by their effect on a broker's start.
#
#     .deleted   removed at once
#     .cleaned   an unfinished copy: removed, and every .swap from the lowest base offset of such a file on
#     .swap      a finished copy: everything else between its first and its next offset is removed, then it is renamed
#
# Sources: LogLoader, LogFileUtils and ProducerStateManager.listSnapshotFiles of Kafka 4.3.1.

_DIGITS = 20
_USUAL = frozenset({LOG, *SIDE_SUFFIXES})
_NEEDS_NUMBER = (LOG, *SIDE_SUFFIXES, CLEANED, SWAP)
_SNAPSHOT = r"[0-9]+-[0-9]+(-[^.]*)?\.checkpoint(\.deleted|\..*part)?"
_ENDINGS = (*LOG_SUFFIXES, *SIDE_SUFFIXES)


class _Extent(NamedTuple):
    """Offsets ``first`` to ``last`` of the intact batches in the file ``name``, both -1 without any. ``base``: the
    offset in its name."""

    name: str
    base: int
    first: int
    last: int


class LeftoverRule(Rule):
    """Checks the names of a partition's files, and reads those that a start would remove or rename."""

    def finish(self) -> None:
        partition = self.partition
        if partition.topic is None:
            return
        odd = [name for name in partition.odd_names if not _is_usual(name)]
        if not odd:
            return
        self._names(sorted(odd))
        if not partition.own_name.endswith("-delete"):
            self._leftovers(sorted(name for name in odd if name.endswith(LEFTOVER_SUFFIXES)))

    def _path(self, name: str) -> str:
        return os.path.join(self.partition.name, name)

    def _names(self, names: list[str]) -> None:
        unknown = []
        for name in names:
            stem = name.partition(".")[0]
            if name.endswith(_NEEDS_NUMBER) and integer(stem, 64) is None:
                text = f"a broker reads the name {name} up to its first dot as an offset"
                self.report.add("broker-would-not-start", self._path(name), text)
            elif name.endswith(LOG) and len(stem) != _DIGITS:
                text = f"a broker opens {segment_stem(int(stem))}.log instead, and creates it if it is missing"
                self.report.add("unpadded-name", self._path(name), text)
            elif not _is_known(name):
                unknown.append(name)
        if unknown:
            text = f"files that no broker knows: {some(unknown)}"
            self.report.add("unknown-file", self.partition.name, text)

    def _leftovers(self, names: list[str]) -> None:
        names = [name for name in names if not name.endswith(".checkpoint.deleted")]
        deleted = [name for name in names if name.endswith(DELETED)]
        cleaned = [name for name in names if name.endswith(CLEANED)]
        lowest = min((base for name in cleaned if (base := _base(name)) is not None), default=None)
        swaps = [name for name in names if name.endswith(SWAP) and _base(name) is not None]
        undone = [name for name in swaps if lowest is not None and (_base(name) or 0) >= lowest]
        swaps = [name for name in swaps if name not in undone]
        for code, found in (("leftover-deleted", deleted), ("leftover-cleaned", cleaned + undone)):
            if found:
                self.report.add(
                    code, self._path(found[0]), f"files: {len(found)} ({some(found)})", details={"count": len(found)}
                )
        placed = self._swaps(swaps)
        for name in [*deleted, *cleaned, *undone]:
            if ".log." in name:
                self._lost(self._extent(name), placed)

    def _swaps(self, names: list[str]) -> list[_Extent]:
        """Reports .swap files that a start renames. Returns their extents."""
        logs = [self._extent(name) for name in names if name.endswith(".log.swap")]
        self._side_swaps([name for name in names if not name.endswith(".log.swap")], {log.base for log in logs})
        if not logs:
            return []
        lowest, beyond = min(log.base for log in logs), max(log.last + 1 for log in logs)
        replaced = [segment for segment in self.partition.segments if lowest <= (segment.base_offset or 0) < beyond]
        for log in logs:
            text = f"offsets {log.first} to {log.last}; segments that a start removes for it: {len(replaced)}"
            details = {"firstOffset": log.first, "lastOffset": log.last, "segments": len(replaced)}
            self.report.add("unfinished-swap", self._path(log.name), text, offset=log.base, details=details)
            index = log.name.replace(".log.", ".index.")
            # The old index is removed with the range, unless the range is empty.
            is_kept = log.last < 0 and index.removesuffix(SWAP) in self.partition.names
            if index not in names and not is_kept:
                self.report.add("swap-without-index", self._path(log.name), "it has no .index.swap", offset=log.base)
        if not self.partition.is_compacted:
            for segment in replaced:
                first, last = segment.first_offset, segment.last_offset
                if last >= 0 and not any(log.first <= first and last <= log.last for log in logs):
                    lost = {"firstOffset": first, "lastOffset": last}
                    text = f"offsets {first} to {last} are not in the .swap that replaces it at a start"
                    self.report.add(
                        "leftover-holds-data", segment.path, text, offset=first, severity=ERROR, details=lost
                    )
        return logs

    def _side_swaps(self, names: list[str], placed: set[int]) -> None:
        """Reports .swap files of indexes without a .log.swap, which a start renames; checks them against the old
        .log."""
        for name in names:
            side = side_file(self._path(name))
            if side is None or side.base_offset in placed:
                continue
            text = f"a start renames it to {name.removesuffix('.swap')}"
            self.report.add("unfinished-swap", self._path(name), text, offset=side.base_offset)
            try:
                judge_side_file(partition_for_file(self.partition), side, lambda _: None)
            except PathError as error:
                add_unread_for(side.path, error, self.report)

    def _lost(self, file: _Extent, placed: list[_Extent]) -> None:
        """Reports if a start removes records that no other file has."""
        held = [(log.base, log.last + 1) for log in placed]
        held += [(segment.base_offset or 0, segment.next_offset or 0) for segment in self.partition.segments]
        held.sort()
        # Below the log start, retention deletes records; without segments there is no log start.
        if file.last < 0 or (held and file.last < held[0][0]):
            return
        end = max((after for _, after in held), default=0)
        is_held = any(base <= file.last and file.first < after for base, after in held)
        is_cleaned = self.partition.is_compacted or (not is_held and shows_cleaning(self.partition))
        if file.last >= end or not (is_held or is_cleaned):
            first = max(file.first, end) if file.last >= end else file.first
            details = {"firstOffset": first, "lastOffset": file.last}
            text = f"offsets {first} to {file.last} are in no other file of the partition, and a start removes it"
            # A recovery or a truncation by the leader also leaves .deleted files, but no other ones.
            severity = None if file.name.endswith(DELETED) else ERROR
            self.report.add(
                "leftover-holds-data", self._path(file.name), text, offset=first, severity=severity, details=details
            )

    def _extent(self, name: str) -> _Extent:
        first = last = -1
        try:
            with open_survey(self._path(name), FULL, self.partition.buffers) as survey:
                for item in survey:
                    if isinstance(item, HeaderRows):
                        for state, low, high in zip(item.states, item.firsts, item.lasts, strict=True):
                            if state & CRC_RIGHT:
                                last = high
                                # A compressed v0 or v1 message does not store its first offset.
                                first = first if first >= 0 else low if low >= 0 else _base(name) or 0
        except KsegError as error:
            self.report.add("unknown-file", self._path(name), str(error))
        return _Extent(name, _base(name) or 0, first, last)


def misnamed_files(partition: Partition) -> list[str]:
    """Returns the files of a partition that no broker reads or knows, and those that end in .log.swap."""
    names = [name for name in partition.odd_names if not _is_usual(name)]
    return [name for name in names if not _is_known(name) or name.endswith(".log.swap")]


def _is_usual(name: str) -> bool:
    """Whether the name is one of a segment's file."""
    is_named = name[_DIGITS:] in _USUAL and name[:_DIGITS].isdigit() and integer(name[:_DIGITS], 64) is not None
    return is_named or name in PARTITION_FILES


def _is_known(name: str) -> bool:
    """Whether any release leaves files with such a name in a partition."""
    for leftover in (*LEFTOVER_SUFFIXES, ".tmp"):
        name = name.removesuffix(leftover)
    stem = name.partition(".")[0]
    return (
        name in PARTITION_FILES
        or (name.endswith(_ENDINGS) and stem.isdigit())
        or re.fullmatch(_SNAPSHOT, name) is not None
    )


def _base(name: str) -> int | None:
    return integer(name.partition(".")[0], 64)


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


def judge_side_file(partition: Partition, side: SideFile, progress: Callable[[int], None]) -> None:
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


def _judge_index(partition: Partition, side: SideFile, progress: Callable[[int], None]) -> None:
    rule = IndexRule(partition, {side.kind: side.path})
    log = side.beside(LOG)
    if partition.settings.level != QUICK and not side.is_remote_copy and trees.isfile(log):
        judge_segments(partition, [segment_file(log)], [rule], progress)
        return
    with open_source(side.path) as source:
        size = source.size
    file = SegmentFile(log, LOG, side.leftover, side.base_offset, None, partition.topic, partition.number)
    segment = CheckedSegment(file, 0, True)
    partition.settings = replace(partition.settings, level=QUICK)
    rule.begin(segment)
    rule.end(segment)
    _count(partition, size)
    progress(size)


def _count(partition: Partition, size: int) -> None:
    partition.report.totals.files += 1
    partition.report.totals.bytes += size
