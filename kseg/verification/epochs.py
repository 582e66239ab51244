"""Checks leader-epoch-checkpoint against the leader epochs of the batches (LeaderEpochFileCache).

An entry may start before the first remaining batch of its epoch: the cleaner removed earlier batches, or a leader was
elected and nothing was written. The first entry may start later: deleting records moves it to the log start.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import LOG
from kseg.kernel.state import epochs as kernel
from kseg.segment.survey import QUICK, HeaderRows
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, plain_epochs, read_leader_epochs
from kseg.sidefiles.lines import MAX_TEXT_BYTES
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores.regular_files import first_bytes
from kseg.verification.rule import Rule

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition

_CHANGE_LIMIT = 256
"""Limit of changes of the epoch that one pass over headers returns."""
_FIRST_BYTES = 4096
"""Size of the first read; a larger read allocates a larger buffer."""
_SHORT_BYTES = 64
_MAX_EPOCHS = 100_000
"""Limit of epochs of the log, and of entries and problems of the file."""


@lru_cache(1 << 8)
def _short_epochs(data: bytes) -> Sequence[EpochEntry] | None:
    """Like `plain_epochs`, cached for short files: many partitions have had one leader epoch, from offset 0 on, and so
    have equal files."""
    return plain_epochs(data)


class _Run(NamedTuple):
    """Batches of one epoch: offset of the first one, and the last offset before it, -1 if none."""

    epoch: int
    first_offset: int
    offset_before: int


class EpochRule(Rule):
    """Collects the leader epochs of a partition's batches, and compares its checkpoint with them at the end."""

    def __init__(self, partition: "Partition") -> None:
        super().__init__(partition)
        directory = partition.directory
        # The epochs of a directory to be deleted are cleared when it is loaded.
        is_deleted = (directory or "").rstrip("/").endswith("-delete")
        self._is_on = partition.level != QUICK and partition.is_whole and directory is not None and not is_deleted
        self._is_on_segment = False
        if self._is_on:
            self._path = os.path.join(directory or "", LEADER_EPOCHS)
            self._state = kernel.EpochState()
            self._changes = partition.buffers.int64s("epoch changes", _CHANGE_LIMIT * kernel.CHANGE_WIDTH)
            self._runs: list[_Run] = []

    def begin(self, segment: "CheckedSegment") -> None:
        self._is_on_segment = self._is_on and segment.file.kind == LOG

    def headers(self, segment: "CheckedSegment", headers: HeaderRows) -> None:
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
        entries, is_readable = (_short_epochs if len(data) <= _SHORT_BYTES else plain_epochs)(data), True
        if entries is None or len(entries) > _MAX_EPOCHS:
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

    def _read(self, buffer: Sliceable) -> tuple[Sequence[EpochEntry], bool]:
        """Returns the entries that a broker keeps, and whether it can read the file."""
        entries: list[EpochEntry] = []
        for item in islice(read_leader_epochs(buffer), _MAX_EPOCHS):
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
        if segments[-1].is_damaged or self.partition.is_live:
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
