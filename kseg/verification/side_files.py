"""Checks the files beside the segments of a partition: checkpoints, leftovers, pending changes, single side files."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.findings.table import DECISION, ERROR
from kseg.formats import suffixes
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.state import indexing as kernel
from kseg.segment import files as segment_files
from kseg.segment.files import SegmentFile, segment_stem
from kseg.segment.paths import some
from kseg.segment.survey import FULL, QUICK, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, OFFSET_CHECKPOINTS, EpochEntry, read_leader_epochs
from kseg.sidefiles.kinds import SideFile, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, META_PROPERTIES, PARTITION_METADATA, integer
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.stores.source import named, open_source
from kseg.verification import partition as partition_check
from kseg.verification.gaps import outlook_of, shows_cleaning
from kseg.verification.indexes import SUFFIXES, IndexRule
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule, unknown_text

_DIGITS = 20
_USUAL = frozenset({suffixes.LOG, *suffixes.SIDE_SUFFIXES})
_NEEDS_NUMBER = (suffixes.LOG, *suffixes.SIDE_SUFFIXES, suffixes.CLEANED, suffixes.SWAP)
_SNAPSHOT = r"[0-9]+-[0-9]+(-[^.]*)?\.checkpoint(\.deleted|\..*part)?"
_ENDINGS = (*suffixes.LOG_SUFFIXES, *suffixes.SIDE_SUFFIXES)


class _Extent(NamedTuple):
    """Offsets ``first`` to ``last`` of the intact batches in the file ``name``, both -1 without any. ``base``: the
    offset in its name."""

    name: str
    base: int
    first: int
    last: int


def judge_leftovers(partition: PartitionCheck) -> None:
    """Checks the names of a partition's files that are not part of its log, and reads those that a start removes or
    renames.

        .deleted   removed at once
        .cleaned   an unfinished copy: removed, and every .swap from the lowest base offset of such a file on
        .swap      a finished copy: everything else between its first and its next offset is removed, then it is renamed

    Sources: LogLoader, LogFileUtils and ProducerStateManager.listSnapshotFiles of Kafka 4.3.1.
    """
    if partition.topic is None:
        return
    unknown, odd = [], sorted(name for name in partition.odd_names if not _is_usual(name))
    for name in odd:
        stem = name.partition(".")[0]
        if name.endswith(_NEEDS_NUMBER) and integer(stem, 64) is None:
            text = f"a broker reads the name {name} up to its first dot as an offset"
            partition.report.add("broker-would-not-start", partition.path(name), text)
        elif name.endswith(suffixes.LOG) and len(stem) != _DIGITS:
            text = f"a broker opens {segment_stem(int(stem))}.log instead, and creates it if it is missing"
            partition.report.add("unpadded-name", partition.path(name), text)
        elif not _is_known(name):
            unknown.append(name)
    if unknown:
        partition.report.add("unknown-file", partition.name, unknown_text(unknown))
    if partition.own_name.endswith("-delete"):
        return
    told = _leftovers(partition, [name for name in odd if name.endswith(suffixes.LEFTOVER_SUFFIXES)])
    told |= {segment.file.name for segment in partition.segments}
    for name, first, last in partition.held_elsewhere:
        if name not in told and not name.endswith(suffixes.LOG):
            text = f"offsets {first} to {last} are in {name}, and in no segment"
            _add_lost(partition, partition.name, text, first, last, ERROR)


def _leftovers(partition: PartitionCheck, names: list[str]) -> set[str]:
    """Checks files that a start removes or renames. Returns the names of those with records that no other file has."""
    names = [name for name in names if not name.endswith(".checkpoint.deleted")]
    deleted = [name for name in names if name.endswith(suffixes.DELETED)]
    cleaned = [name for name in names if name.endswith(suffixes.CLEANED)]
    lowest = min((base for name in cleaned if (base := _base(name)) is not None), default=None)
    swaps = [name for name in names if name.endswith(suffixes.SWAP) and _base(name) is not None]
    undone = [name for name in swaps if lowest is not None and (_base(name) or 0) >= lowest]
    for code, found in (("leftover-deleted", deleted), ("leftover-cleaned", cleaned + undone)):
        if found:
            text, details = f"files: {len(found)} ({some(found)})", {"count": len(found)}
            partition.report.add(code, partition.path(found[0]), text, details=details)
    placed = _judge_swaps(partition, [name for name in swaps if name not in undone])
    logs = [name for name in (*deleted, *cleaned, *undone) if ".log." in name]
    told = {name for name in logs if _judge_lost(partition, _extent(partition, name), placed)}
    if deleted and any(segment.is_damaged for segment in partition.segments):
        _judge_copies(partition)
    return told


def _judge_swaps(partition: PartitionCheck, names: list[str]) -> list[_Extent]:
    """Reports .swap files that a start renames. Returns their extents."""
    report, logs = partition.report, [_extent(partition, name) for name in names if name.endswith(".log.swap")]
    placed = {log.base for log in logs}
    for name in names:
        side = side_file(partition.path(name))
        # An index without a .log.swap is checked against the old .log.
        if not name.endswith(".log.swap") and side is not None and side.base_offset not in placed:
            text = f"a start renames it to {name.removesuffix('.swap')}"
            report.add("unfinished-swap", side.path, text, offset=side.base_offset)
            try:
                judge_side_file(partition_check.partition_for_file(partition), side)
            except PathError as error:
                partition_check.add_unread(side.path, report, error)
    if not logs:
        return []
    lowest, beyond = min(log.base for log in logs), max(log.last + 1 for log in logs)
    replaced = [segment for segment in partition.segments if lowest <= (segment.base_offset or 0) < beyond]
    for log in logs:
        path, index = partition.path(log.name), log.name.replace(".log.", ".index.")
        text = f"offsets {log.first} to {log.last}; segments that a start removes for it: {len(replaced)}"
        details = {"firstOffset": log.first, "lastOffset": log.last, "segments": len(replaced)}
        report.add("unfinished-swap", path, text, offset=log.base, details=details)
        # The old index is removed with the range, unless the range is empty.
        is_kept = log.last < 0 and index.removesuffix(suffixes.SWAP) in partition.names
        if index not in names and not is_kept:
            report.add("swap-without-index", path, "it has no .index.swap", offset=log.base)
    for segment in () if partition.is_compacted else replaced:
        first, last = segment.first_offset, segment.last_offset
        if last >= 0 and not any(log.first <= first and last <= log.last for log in logs):
            text = f"offsets {first} to {last} are not in the .swap that replaces it at a start"
            _add_lost(partition, segment.path, text, first, last, ERROR)
    return logs


def _judge_copies(partition: PartitionCheck) -> None:
    """Reports deleted segments with intact copies of batches that are damaged in the log."""
    from kseg.recovery.leftovers import only_copies

    with suppress(KsegError):
        for name, removed in only_copies(partition.directory or "").items():
            if copies := [each for each in removed if each.records is None]:
                first, last = max(copies[0].first_offset or 0, 0), copies[-1].last_offset or 0
                text = f"offsets {first} to {last}: intact copies of what is damaged in the log; a start removes them"
                _add_lost(partition, partition.path(name), text, first, last, None)


def _judge_lost(partition: PartitionCheck, file: _Extent, placed: list[_Extent]) -> bool:
    """Reports if a start removes records that no other file has, and returns whether it does."""
    held = [(log.base, log.last + 1) for log in placed]
    held += [(segment.base_offset or 0, segment.next_offset or 0) for segment in partition.segments]
    held.sort()
    # Below the log start, retention deletes records; without segments there is no log start.
    if file.last < 0 or (held and file.last < held[0][0]):
        return False
    end = max((after for _, after in held), default=0)
    is_held = any(base <= file.last and file.first < after for base, after in held)
    is_cleaned = partition.is_compacted or (not is_held and shows_cleaning(partition))
    is_lost = file.last >= end or not (is_held or is_cleaned)
    if is_lost:
        first = max(file.first, end) if file.last >= end else file.first
        text = f"offsets {first} to {file.last} are in no other file of the partition, and a start removes it"
        # A recovery or a truncation by the leader also leaves .deleted files, but no other ones.
        severity = None if file.name.endswith(suffixes.DELETED) else ERROR
        _add_lost(partition, partition.path(file.name), text, first, file.last, severity)
    return is_lost


def _add_lost(partition: PartitionCheck, path: str, text: str, first: int, last: int, severity: str | None) -> None:
    details = {"firstOffset": first, "lastOffset": last}
    partition.report.add("leftover-holds-data", path, text, offset=first, severity=severity, details=details)


def _extent(partition: PartitionCheck, name: str) -> _Extent:
    first = last = -1
    try:
        with open_survey(partition.path(name), FULL, partition.buffers) as survey:
            for item in survey:
                if not isinstance(item, HeaderRows):
                    continue
                for state, low, high in zip(item.states, item.firsts, item.lasts, strict=True):
                    if state & CRC_RIGHT:
                        last = high
                        # A compressed v0 or v1 message does not store its first offset.
                        first = first if first >= 0 else low if low >= 0 else _base(name) or 0
    except KsegError as error:
        partition.report.add("unknown-file", partition.path(name), str(error))
    return _Extent(name, _base(name) or 0, first, last)


def judge_end(partition: PartitionCheck, misnamed: list[str]) -> None:
    """Reports misnamed files with batches that continue the log behind its end."""
    end = partition.segments[-1].next_offset or 0
    for path, first, last in sorted(outlook_of(partition).sources, key=itemgetter(1)) if misnamed else ():
        if first <= end <= last and (name := os.path.basename(path)) in misnamed:
            text = f"offsets {end} to {last} are in {name}, and in no segment"
            _add_lost(partition, partition.name, text, end, last, None)
            end = last + 1


def misnamed_files(partition: PartitionCheck) -> list[str]:
    """Returns the files of a partition that neither brokers nor kseg read or know, and those that end in .log.swap."""
    names = (name for name in partition.odd_names if not (_is_usual(name) or name.startswith(segment_files.OWN_PREFIX)))
    return [name for name in names if not _is_known(name) or name.endswith(".log.swap")]


def _is_usual(name: str) -> bool:
    """Whether the name is one of a segment's file."""
    is_named = name[_DIGITS:] in _USUAL and name[:_DIGITS].isdigit() and integer(name[:_DIGITS], 64) is not None
    return is_named or name in segment_files.PARTITION_FILES


def _is_known(name: str) -> bool:
    """Whether any release leaves files with such a name in a partition."""
    for leftover in (*suffixes.LEFTOVER_SUFFIXES, ".tmp"):
        name = name.removesuffix(leftover)
    stem = name.partition(".")[0]
    return (
        name in segment_files.PARTITION_FILES
        or (name.endswith(_ENDINGS) and stem.isdigit())
        or re.fullmatch(_SNAPSHOT, name) is not None
    )


def _base(name: str) -> int | None:
    return integer(name.partition(".")[0], 64)


SHOWN_PROBLEMS = 1000
"""Limit of problems reported for one file; random bytes give one per entry."""

_CODES = {
    suffixes.TRANSACTION_INDEX: "transaction-index-damaged",
    suffixes.SNAPSHOT: "producer-snapshot-damaged",
    LEADER_EPOCHS: "leader-epochs-damaged",
    ".leader_epoch_checkpoint": "leader-epochs-damaged",
    **dict.fromkeys(OFFSET_CHECKPOINTS, "unreadable-checkpoint"),
    segment_files.STREAMS_CHECKPOINT: "unreadable-checkpoint",
    PARTITION_METADATA: "bad-partition-metadata",
    META_PROPERTIES: "bad-meta-properties",
    segment_files.CLEAN_SHUTDOWN: "bad-clean-shutdown",
    segment_files.QUORUM_STATE: "bad-quorum-state",
}


def judge_side_file(partition: PartitionCheck, side: SideFile) -> None:
    """Checks one side file of any kind. Raises PathError if it cannot be opened."""
    if side.kind in SUFFIXES:
        rule, log = IndexRule(partition, {side.kind: side.path}), side.beside(suffixes.LOG)
        if partition.settings.level != QUICK and not side.is_remote_copy and Place(log).is_file():
            partition_check.judge_segments(partition, [segment_files.segment_file(log)], [rule])
            return
        with open_source(side.path) as source:
            size = source.size
        file = SegmentFile(log, suffixes.LOG, side.leftover, side.base_offset, None, partition.topic, partition.number)
        segment = CheckedSegment(file, 0, True)
        partition.settings = replace(partition.settings, level=QUICK)
        rule.begin(segment)
        rule.end(segment)
        _count(partition, size)
        return
    code, count = _CODES[side.kind], 0
    with open_source(side.path) as source:
        for item in read_items(side.kind, source.buffer, side.base_offset):
            if isinstance(item, SideFileProblem) and item.is_damage:
                is_unsorted = code == "leader-epochs-damaged" and item.code == "unsorted"
                own = "leader-epochs-unsorted" if is_unsorted else code
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


def _count(partition: PartitionCheck, size: int) -> None:
    partition.report.totals.files += 1
    partition.report.totals.bytes += size
    partition.report.advance(size)


_CAUSED = frozenset({
    "segments-overlap", "offset-outside-segment", "batch-out-of-order", "wrong-base-offset", "gap-unexplained",
    "leader-epoch-falls", "leader-epochs-mismatch", "leader-epochs-beyond-end", "producer-sequence-gap",
    "producer-epoch-falls", "producer-snapshot-mismatch", "producer-snapshot-beyond-end", "batch-outside-transaction",
    "transaction-index-incomplete", "transaction-index-wrong-entry", "index-misleads", "index-beyond-log",
    "time-index-mismatch", "time-index-beyond-log", "time-index-incomplete", "high-watermark-beyond-end",
    "recovery-point-beyond-end",
})  # fmt: skip
"""Findings that foreign batches cause."""


class ForeignBatchesRule(Rule):
    """Reports segments whose batches belong to another partition (`kseg.node.belonging`). All files of the partition
    are read again for it, so this is done only after another finding that such batches cause."""

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        self._codes_before = Counter(partition.report.totals.codes)

    def finish(self) -> None:
        partition = self.partition
        found = partition.report.totals.codes - self._codes_before
        is_log = partition.directory is not None and all(one.file.kind == suffixes.LOG for one in partition.segments)
        if partition.settings.level == QUICK or not is_log or _CAUSED.isdisjoint(found):
            return
        # Few partitions have such findings.
        from kseg.node.belonging import FOREIGN_BATCHES, Siblings, foreign_segments

        siblings = None if partition.settings.is_live else partition.buffers.kept("siblings", Siblings)
        for one in foreign_segments(partition.name, partition.broker, siblings=siblings):
            if partition.settings.is_live and one.path == partition.segments[-1].path:
                continue  # its side files were read at other moments
            text = f"{one.records} records, offsets {one.first} to {one.last}: {one.reason}"
            partition.report.add(FOREIGN_BATCHES, one.path, text, offset=one.first, details=one.details())


def judge_pending_changes(partition: PartitionCheck) -> None:
    """Reports interrupted changes in the quarantine of a partition; `kseg.changes` completes or reverts them."""
    if not any(name.startswith(segment_files.OWN_PREFIX) for name in partition.others):
        return
    from kseg.changes.accepted_gaps import accepted_gaps  # few partitions have been changed
    from kseg.changes.quarantine import check_folder, folder_of, leftovers, pending, was_interrupted

    # A log directory may be a link; nothing follows links in the quarantine.
    report, directory = partition.report, resolved(partition.name)
    folder = folder_of(directory)
    if was_interrupted(directory):
        text = "a change was interrupted before its record was written: some files are in their new state"
        report.add("pending-change", directory, text)
    if not Place(folder).lexists():
        return
    try:
        check_folder(directory)
        for change in pending(directory):
            text = f"{change.command!r} was interrupted: some files are in their new state, some in the old one"
            report.add("pending-change", folder, text, details={"command": change.command})
        if left := leftovers(directory):
            text = f"{len(left)} changes were interrupted while they were being prepared: nothing was changed"
            report.add("pending-change", folder, text, details={"count": len(left)})
        accepted_gaps(directory)  # raises if its files cannot be read
    except KsegError as error:
        report.add("pending-change", folder, str(error), needs=DECISION)


def judge_checkpoints(partition: PartitionCheck) -> None:
    """Checks the offsets of a partition in the log directory's checkpoints against the start and end of its log.

    Sources: LogLoader, UnifiedLog, LogCleanerManager and ReplicaManager of Kafka 4.3.1.
    """
    report, broker = partition.report, partition.broker
    if (extent := partition.extent) is None:
        return
    end = extent.end
    for code, name, offset in (
        ("high-watermark-beyond-end", "the high watermark", broker.high_watermark),
        ("log-start-beyond-end", "the log start offset", broker.log_start_offset),
        ("recovery-point-beyond-end", "the recovery point", broker.recovery_point),
        ("cleaner-checkpoint-beyond-end", "the cleaner's checkpoint", broker.cleaner_offset),
    ):
        if offset is not None and offset > end and offset > outlook_of(partition).next_offset:
            details = {"checkpointOffset": offset, "logEndOffset": end}
            text = f"{name} is {offset}, the log ends at {end}"
            report.add(code, partition.name, text, offset=offset, details=details)
    start = broker.log_start_offset
    if start is None or start > end:
        return
    if below := [before for before, after in pairwise(partition.segments) if (after.base_offset or 0) <= start]:
        text = f"the log start offset is {start}; segments below it: {len(below)}"
        records = sum(before.records for before in below)
        details = {"startOffset": start, "segments": len(below), "removedRecords": records}
        first = below[0]
        report.add("segments-below-log-start", first.path, text, offset=first.base_offset, details=details)


_CHANGE_LIMIT = 256
"""Limit of changes of the epoch that one pass over headers returns."""
_FIRST_BYTES = 4096
"""Size of the first read; a larger read allocates a larger buffer."""
_MAX_EPOCHS = 100_000
"""Limit of epochs of the log, and of entries and problems of the file."""


class _Run(NamedTuple):
    """Batches of one epoch: offset of the first one, and the last offset before it, -1 if none."""

    epoch: int
    first_offset: int
    offset_before: int


class EpochRule(Rule):
    """Collects the leader epochs of a partition's batches, and compares its checkpoint with them at the end.

    An entry may start before the first remaining batch of its epoch: the cleaner removed earlier batches, or a leader
    was elected and nothing was written. The first entry may start later: deleting records moves it to the log start.
    """

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        # The epochs of a directory to be deleted are cleared when it is loaded.
        is_kept = partition.is_whole and not partition.own_name.endswith("-delete")
        self._is_on = partition.settings.level != QUICK and is_kept
        if self._is_on:
            self._path = partition.path(LEADER_EPOCHS)
            self._state = kernel.EpochState()
            self._changes = partition.buffers.int64s("epoch changes", _CHANGE_LIMIT * kernel.CHANGE_WIDTH)
            self._runs: list[_Run] = []
            self._ends_without_epochs = True

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        is_on, start = self._is_on and segment.file.kind == suffixes.LOG, 0
        while is_on and start < headers.count:
            start = kernel.changes(headers.rows, start, headers.count, self._state, self._changes)
            for i in range(self._state.found):
                at = i * kernel.CHANGE_WIDTH
                run = _Run(*self._changes[at : at + kernel.CHANGE_WIDTH].tolist())
                self._ends_without_epochs = run.epoch < 0
                if run.epoch < 0:
                    # A broker clears the file when it appends a message without epoch.
                    self._runs.clear()
                elif (not self._runs or run.epoch > self._runs[-1].epoch) and len(self._runs) < _MAX_EPOCHS:
                    self._runs.append(run)

    def finish(self) -> None:
        segments = self.partition.segments
        if not self._is_on or not any(segment.file.kind == suffixes.LOG for segment in segments):
            return
        if LEADER_EPOCHS not in self.partition.names:
            if not self.partition.is_bare:
                self._missing("the file is missing")
            return
        try:
            data = self._path.head(_FIRST_BYTES)
            if len(data) == _FIRST_BYTES:
                data = self._path.head(MAX_TEXT_BYTES)
        except OSError as error:
            self.report.add("leader-epochs-damaged", self._path, f"it cannot be read: {error.strerror}")
            return
        entries: list[EpochEntry] = []  # those that a broker keeps
        for item in islice(read_leader_epochs(data), _MAX_EPOCHS):
            if not isinstance(item, SideFileProblem):
                while entries and (entries[-1].epoch >= item.epoch or entries[-1].start_offset >= item.start_offset):
                    entries.pop()
                entries.append(item)
                continue
            code = "leader-epochs-unsorted" if item.code == "unsorted" else "leader-epochs-damaged"
            self.report.add(code, self._path, item.message, item.position, item.length)
            if item.code != "unsorted":
                return  # a broker cannot read the file
        if not entries:
            self._missing("it has no entries")
            return
        self.partition.first_epoch = entries[0].start_offset
        last, end = segments[-1], max((segment.next_offset or 0 for segment in segments), default=0)
        beyond = [entry for entry in entries if entry.start_offset > end]
        is_known = not last.is_damaged and not self.partition.settings.is_live
        for entry in beyond if beyond and is_known and not last.has_grown() else ():
            text = f"epoch {entry.epoch} begins at offset {entry.start_offset}, the log ends at {end}"
            details = {"leaderEpoch": entry.epoch, "startOffset": entry.start_offset, "logEndOffset": end}
            self.report.add("leader-epochs-beyond-end", self._path, text, offset=end, details=details)
        has_messages = end > (segments[0].base_offset or 0)
        era = self.partition.settings.era
        if self._ends_without_epochs and has_messages and era.truncates_by_epochs_of_old_formats:
            epoch, start = entries[-1]
            text = f"the log ends with messages of v0 or v1, which have no epoch; the last one in the file is {epoch}"
            details = {"leaderEpoch": epoch, "startOffset": start}
            self.report.add("leader-epochs-stale", self._path, text, offset=start, details=details)
        self._compare(entries)

    def _missing(self, reason: str) -> None:
        if self._runs:
            latest = self._runs[-1]
            text = f"{reason}; the latest epoch of the batches is {latest.epoch}"
            details = {"leaderEpoch": latest.epoch, "firstOffset": latest.first_offset}
            self.report.add("leader-epochs-missing", self._path, text, offset=latest.first_offset, details=details)

    def _compare(self, entries: Sequence[EpochEntry]) -> None:
        starts = {entry.epoch: entry.start_offset for entry in entries}
        log_start = entries[0].start_offset
        for i, run in enumerate(self._runs):
            # Records below the first entry may have been deleted, even if their bytes remain.
            is_last_below = i + 1 == len(self._runs) or self._runs[i + 1].first_offset > log_start
            if run.first_offset < log_start and not (is_last_below and self._runs[-1].epoch > entries[-1].epoch):
                continue
            start = starts.get(run.epoch)
            if start is None:
                text = f"epoch {run.epoch} begins at offset {run.first_offset} and is not in it"
            elif start > run.first_offset:
                text = f"epoch {run.epoch} begins at offset {run.first_offset}, by the file at {start}"
            elif start <= run.offset_before:
                text = f"epoch {run.epoch} begins behind offset {run.offset_before}, by the file at {start}"
            else:
                continue
            details = {"leaderEpoch": run.epoch, "firstOffset": run.first_offset, "startOffset": start}
            self.report.add("leader-epochs-mismatch", self._path, text, offset=run.first_offset, details=details)
