"""Checks .txnindex files against the markers of their segments.

An entry is in the index of the segment with the ABORT marker. Up to 2.7 a marker of a transaction without data had an
entry, too. The start of a transaction is unknown if the log starts later, was compacted or is damaged.
"""

import os
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.findings.table import ERROR, WARNING
from kseg.formats.suffixes import TRANSACTION_INDEX
from kseg.sidefiles.producer_state import Abort, ProducerStates
from kseg.sidefiles.transaction_index import VERSION, AbortedTxn, TransactionIndex
from kseg.stores.source import open_source

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition

_MAX_WRONG_ENTRIES = 10_000
"""Limit of wrong entries of one file; the rest of such a file is not checked."""

_WIDTH = TransactionIndex.LAYOUT.size


class TransactionIndexes:
    """Checks the .txnindex of each segment; ``states`` replays the batches."""

    def __init__(self, partition: "Partition", states: ProducerStates) -> None:
        self._partition = partition
        self._report = partition.report
        self._states = states
        self._has_indexes = any("txnindex" in ending for ending in partition.endings)

    def judge(self, segment: "CheckedSegment", aborts: list[Abort]) -> None:
        """Compares the file with the ABORT markers of the segment, which was read completely."""
        if self._partition.directory is None or segment.path == "-" or not (aborts or self._has_indexes):
            return
        path = segment.beside(TRANSACTION_INDEX)
        severity = WARNING if self._partition.broker.will_be_scanned(segment.next_offset) else ERROR
        if os.path.basename(path) not in self._partition.names:
            needed = [abort for abort in aborts if abort.filled and abort.is_certain]
            if needed and not self._partition.is_bare:
                text = f"aborted transactions whose marker is in {segment.file.name}: {len(needed)}"
                self._report.add(
                    "transaction-index-missing",
                    path,
                    text,
                    offset=needed[0].last_offset,
                    severity=severity,
                    details={"count": len(needed)},
                )
            return
        try:
            with open_source(path) as source:
                _File(self._partition, self._states, segment, path, severity).judge(
                    TransactionIndex(source.buffer, segment.base_offset or 0), aborts
                )
        except PathError as error:
            self._report.add("transaction-index-damaged", path, f"it cannot be read: {error}", severity=severity)


class _File:
    """The .txnindex of one segment."""

    def __init__(
        self, partition: "Partition", states: ProducerStates, segment: "CheckedSegment", path: str, severity: str
    ) -> None:
        self._report = partition.report
        self._segment = segment
        self._path = path
        self._severity = severity
        self._is_live = partition.is_live and segment.is_last
        first = partition.segments[0].base_offset
        # Otherwise transactions may have begun in missing batches.
        self._knows_all = partition.is_whole and first == 0 and states.is_complete and not partition.is_compacted
        self._wrong = self._damaged = 0

    def judge(self, index: TransactionIndex, aborts: list[Abort]) -> None:
        left = {abort.last_offset: abort for abort in aborts}
        before: AbortedTxn | None = None
        for number, entry in enumerate(index):
            position = number * _WIDTH
            abort = left.pop(entry.last_offset, None)
            if abort is None or not self._agrees(entry, abort, position):
                self._misfit(entry, before, abort, position)
            if self._wrong >= _MAX_WRONG_ENTRIES:
                return
            before = entry
        over = index.size % _WIDTH
        if over and not self._is_live:
            text = "there is an incomplete entry at the end"
            text += ": entries that a broker appends cannot be read" if self._segment.is_last else ""
            severity = self._severity if self._segment.is_last else WARNING
            self._add("transaction-index-damaged", text, index.size - over, severity, over)
        needed = [abort for abort in left.values() if abort.filled and abort.is_certain]
        if len(needed) > self._damaged:  # otherwise these may be the damaged entries
            for abort in needed:
                text = (
                    f"producer {abort.producer_id}: offsets {abort.first_offset} to {abort.last_offset} have no entry"
                )
                self._report.add(
                    "transaction-index-incomplete",
                    self._path,
                    text,
                    offset=abort.last_offset,
                    severity=self._severity,
                    details={
                        "producerId": abort.producer_id,
                        "firstOffset": abort.first_offset,
                        "lastOffset": abort.last_offset,
                    },
                )

    def _add(self, code: str, text: str, position: int, severity: str, length: int = _WIDTH) -> None:
        self._wrong += 1
        self._damaged += code == "transaction-index-damaged"
        details = {"entry": position // _WIDTH}
        self._report.add(code, self._path, text, position, length, severity=severity, details=details)

    def _agrees(self, entry: AbortedTxn, abort: Abort, position: int) -> bool:
        """Whether the entry is for the marker; reports a wrong last stable offset."""
        if entry.version or entry.producer_id != abort.producer_id:
            return False
        if abort.first_offset < 0 or not abort.is_certain:
            # It began in missing batches, ended in unread ones, or had no data (up to 2.7).
            return 0 <= entry.first_offset <= abort.last_offset
        if entry.first_offset != abort.first_offset and (self._knows_all or entry.first_offset > abort.first_offset):
            return False
        found, expected = entry.last_stable_offset, abort.last_stable_offset
        if found > expected:
            # A broker adds all batches of an append before it writes its entries: one may begin after the marker.
            if expected != abort.last_offset + 1 or found > (self._segment.next_offset or 0):
                text = (
                    f"last stable offset {found} is above {expected}: aborted transactions from there on are not found"
                )
                self._add("transaction-index-wrong-entry", text, position, self._severity)
        elif found < expected and self._knows_all:
            text = f"last stable offset {found} is below {expected}: consumers search one segment more"
            self._add("transaction-index-wrong-entry", text, position, WARNING)
        return True

    def _may_come(self, entry: AbortedTxn) -> bool:
        """Whether the entry's marker was written after the segment was read."""
        return entry.last_offset >= (self._segment.next_offset or 0) and (self._is_live or self._segment.has_grown())

    def _misfit(self, entry: AbortedTxn, before: AbortedTxn | None, abort: Abort | None, position: int) -> None:
        if entry.version:
            brokers = "no broker starts" if entry.version_as_kafka_reads_it > 0 else "Kafka 4.4 does not start"
            text = f"version {entry.version} is not {VERSION}: {brokers} on it"
            self._add("transaction-index-damaged", text, position, ERROR)
        elif problem := TransactionIndex(b"", self._segment.base_offset or 0).problem_of(entry, before):
            self._add("transaction-index-damaged", problem, position, self._severity)
        elif abort is not None:
            text = (
                f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}; "
                f"the marker there is that of producer {abort.producer_id}"
            )
            text += f", whose transaction began at {abort.first_offset}" if abort.first_offset >= 0 else ""
            self._add("transaction-index-wrong-entry", text, position, self._severity)
        elif not self._segment.is_damaged and not self._may_come(entry):
            text = f"producer {entry.producer_id}: there is no marker of an aborted transaction at {entry.last_offset}"
            self._add("transaction-index-wrong-entry", text, position, self._severity)
