"""Checks a whole partition against its checkpoints: leader epochs, offsets, pending changes, batches of others.

An entry may start before the first remaining batch of its epoch: the cleaner removed earlier batches, or a leader was
elected and nothing was written. The first entry may start later: deleting records moves it to the log start.
"""

import os
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import DECISION
from kseg.formats.suffixes import LOG
from kseg.kernel.state import indexing as kernel
from kseg.segment.files import OWN_PREFIX
from kseg.segment.survey import QUICK, HeaderRows
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, plain_epochs, read_leader_epochs
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import MAX_TEXT_BYTES
from kseg.stores import trees
from kseg.stores.no_follow import resolved
from kseg.stores.regular_files import first_bytes
from kseg.verification.gaps import outlook_of
from kseg.verification.partition import CheckedSegment, Partition, Rule

# Reports segments whose batches belong to another partition (`kseg.logdir.belonging`).
#
# All files of the partition are read again for it, so this is done only after another finding that such batches
# cause.

_CAUSED = (
    "segments-overlap", "offset-outside-segment", "batch-out-of-order", "wrong-base-offset", "gap-unexplained",
    "leader-epoch-falls", "leader-epochs-mismatch", "leader-epochs-beyond-end", "producer-sequence-gap",
    "producer-epoch-falls", "producer-snapshot-mismatch", "producer-snapshot-beyond-end", "batch-outside-transaction",
    "transaction-index-incomplete", "transaction-index-wrong-entry", "index-misleads", "index-beyond-log",
    "time-index-mismatch", "time-index-beyond-log", "time-index-incomplete", "high-watermark-beyond-end",
    "recovery-point-beyond-end",
)  # fmt: skip
"""Findings that foreign batches cause."""


class ForeignBatchRule(Rule):
    """Weighs the evidence after all other rules."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self._before = self._caused()

    def _caused(self) -> int:
        codes = self.report.totals.codes
        return sum(codes.get(code, 0) for code in _CAUSED) if codes else 0

    def finish(self) -> None:
        partition = self.partition
        is_log = partition.directory is not None and all(one.file.kind == LOG for one in partition.segments)
        if partition.settings.level == QUICK or not is_log or self._caused() == self._before:
            return
        from kseg.logdir.belonging import FOREIGN_BATCHES, foreign_segments  # few partitions have such findings

        for one in foreign_segments(partition.directory or "", partition.broker):
            if partition.settings.is_live and one.path == partition.segments[-1].path:
                continue  # its side files were read at other moments
            text = f"{one.records} records, offsets {one.first} to {one.last}: {one.reason}"
            self.report.add(FOREIGN_BATCHES, one.path, text, offset=one.first, details=one.details())


# Finds interrupted changes of kseg in a partition; `kseg.changes` completes or reverts them.


class PendingChangeRule(Rule):
    """Reads the quarantine of a partition, if there is one."""

    def finish(self) -> None:
        if not any(name.startswith(OWN_PREFIX) for name in self.partition.others or ()):
            return
        from kseg.changes.accepted_gaps import accepted_gaps  # few partitions have been changed
        from kseg.changes.quarantine import check_folder, folder_of, leftovers, pending

        # A log directory may be a link; nothing follows links in the quarantine.
        directory = resolved(self.partition.name)
        if not trees.lexists(folder_of(directory)):
            return
        try:
            check_folder(directory)
            for change in pending(directory):
                text = f"{change.command!r} was interrupted: some files are in their new state, some in the old one"
                self.report.add("pending-change", folder_of(directory), text, details={"command": change.command})
            if left := leftovers(directory):
                text = f"{len(left)} changes were interrupted while they were being prepared: nothing was changed"
                self.report.add("pending-change", folder_of(directory), text, details={"count": len(left)})
            accepted_gaps(directory)  # raises if its files cannot be read
        except KsegError as error:
            self.report.add("pending-change", folder_of(directory), str(error), needs=DECISION)


# Checks the offsets of a partition in the log directory's checkpoints against the start and end of its log.
#
# Sources: LogLoader, UnifiedLog, LogCleanerManager and ReplicaManager of Kafka 4.3.1.


class CheckpointRule(Rule):
    """Compares after all segments were read."""

    def finish(self) -> None:
        partition, broker = self.partition, self.partition.broker
        if (extent := partition.extent) is None:
            return
        _, end = extent
        for code, name, offset in (
            ("high-watermark-beyond-end", "the high watermark", broker.high_watermark),
            ("log-start-beyond-end", "the log start offset", broker.log_start_offset),
            ("recovery-point-beyond-end", "the recovery point", broker.recovery_point),
            ("cleaner-checkpoint-beyond-end", "the cleaner's checkpoint", broker.cleaner_offset),
        ):
            if offset is not None and offset > end and offset > outlook_of(partition).next_offset:
                details = {"checkpointOffset": offset, "logEndOffset": end}
                self.report.add(
                    code, partition.name, f"{name} is {offset}, the log ends at {end}", offset=offset, details=details
                )
        if broker.log_start_offset is not None and broker.log_start_offset <= end:
            self._below(broker.log_start_offset)

    def _below(self, start: int) -> None:
        """Reports segments below the log start offset."""
        segments = self.partition.segments
        below = [before for before, after in pairwise(segments) if (after.base_offset or 0) <= start]
        if below:
            records = sum(before.records for before in below)
            text = f"the log start offset is {start}; segments below it: {len(below)}"
            details = {"startOffset": start, "segments": len(below), "removedRecords": records}
            self.report.add(
                "segments-below-log-start", below[0].path, text, offset=below[0].base_offset, details=details
            )


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
    """Collects the leader epochs of a partition's batches, and compares its checkpoint with them at the end."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        directory = partition.directory
        # The epochs of a directory to be deleted are cleared when it is loaded.
        is_kept = directory is not None and not directory.rstrip("/").endswith("-delete")
        self._is_on = partition.settings.level != QUICK and partition.is_whole and is_kept
        self._is_on_segment = False
        if self._is_on:
            self._path = os.path.join(directory or "", LEADER_EPOCHS)
            self._state = kernel.EpochState()
            self._changes = partition.buffers.int64s("epoch changes", _CHANGE_LIMIT * kernel.CHANGE_WIDTH)
            self._runs: list[_Run] = []

    def begin(self, segment: CheckedSegment) -> None:
        self._is_on_segment = self._is_on and segment.file.kind == LOG

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        start = 0
        while self._is_on_segment and start < headers.count:
            start = kernel.changes(headers.rows, start, headers.count, self._state, self._changes)
            for i in range(self._state.found):
                at = i * kernel.CHANGE_WIDTH
                self._change(_Run(*self._changes[at : at + kernel.CHANGE_WIDTH].tolist()))

    def _change(self, run: _Run) -> None:
        if run.epoch < 0:
            # A broker clears the file when it appends a message without epoch.
            self._runs.clear()
        elif (not self._runs or run.epoch > self._runs[-1].epoch) and len(self._runs) < _MAX_EPOCHS:
            self._runs.append(run)

    def finish(self) -> None:
        if not self._is_on or not any(segment.file.kind == LOG for segment in self.partition.segments):
            return
        if LEADER_EPOCHS not in self.partition.names:
            if not self.partition.is_bare:
                self._missing("the file is missing")
            return
        try:
            data = first_bytes(self._path, _FIRST_BYTES)
            if len(data) == _FIRST_BYTES:
                data = first_bytes(self._path, MAX_TEXT_BYTES)
        except OSError as error:
            self.report.add("leader-epochs-damaged", self._path, f"it cannot be read: {error.strerror}")
            return
        entries, is_readable = self._read(data)
        if is_readable and not entries:
            self._missing("it has no entries")
        elif is_readable:
            self._beyond_end(entries)
            self._compare(entries)

    def _missing(self, reason: str) -> None:
        if self._runs:
            latest = self._runs[-1]
            text = f"{reason}; the latest epoch of the batches is {latest.epoch}"
            details = {"leaderEpoch": latest.epoch, "firstOffset": latest.first_offset}
            self.report.add("leader-epochs-missing", self._path, text, offset=latest.first_offset, details=details)

    def _read(self, data: bytes) -> tuple[Sequence[EpochEntry], bool]:
        """Returns the entries that a broker keeps, and whether it can read the file."""
        if (plain := plain_epochs(data)) and len(plain) <= _MAX_EPOCHS:
            return plain, True
        entries: list[EpochEntry] = []
        for item in islice(read_leader_epochs(data), _MAX_EPOCHS):
            if not isinstance(item, SideFileProblem):
                while entries and (entries[-1].epoch >= item.epoch or entries[-1].start_offset >= item.start_offset):
                    entries.pop()
                entries.append(item)
            elif item.code == "unsorted":
                self.report.add("leader-epochs-unsorted", self._path, item.message, item.position, item.length)
            else:
                self.report.add("leader-epochs-damaged", self._path, item.message, item.position, item.length)
                return entries, False
        return entries, True

    def _beyond_end(self, entries: Sequence[EpochEntry]) -> None:
        segments = self.partition.segments
        end = max((segment.next_offset or 0 for segment in segments), default=0)
        if segments[-1].is_damaged or self.partition.settings.is_live:
            return
        beyond = [entry for entry in entries if entry.start_offset > end]
        if beyond and not segments[-1].has_grown():
            for entry in beyond:
                text = f"epoch {entry.epoch} begins at offset {entry.start_offset}, the log ends at {end}"
                details = {"leaderEpoch": entry.epoch, "startOffset": entry.start_offset, "logEndOffset": end}
                self.report.add("leader-epochs-beyond-end", self._path, text, offset=end, details=details)

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
