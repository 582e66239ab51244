"""Checks producers and transactions: sequences, epochs, markers, open transactions, and their side files.

`ProducerRule` replays the state of all producers while the batches are read, and compares the files with it.
"""

import os
from bisect import bisect_right
from typing import Any

from kseg.errors import PathError
from kseg.findings.table import ERROR, INFO, WARNING
from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import SNAPSHOT, TRANSACTION_INDEX
from kseg.kernel.state import producers as kernel
from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.quantities import show_span
from kseg.segment.files import is_part_of_log, segment_stem
from kseg.segment.items import Damage
from kseg.segment.survey import QUICK, BatchRow, HeaderRows
from kseg.sidefiles import producer_state
from kseg.sidefiles.indexes import TRANSACTION_VERSION, AbortedTxn, TransactionIndex
from kseg.sidefiles.producer_state import ENTRY, Abort, ProducerStateEntry, ProducerStates
from kseg.stores.place import Place
from kseg.stores.source import open_source
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule
from kseg.verification.report import NO_DETAILS, SHOWN_PER_FILE, Details

_SMALL_BYTES = 4096
_TOO_LARGE_BYTES = (1 << 31) - 8
"""The smallest file that no broker can read, because a broker reads it into one array."""
_KEPT_SNAPSHOT_FINDINGS = 1000
_KEPT_FINDINGS = 10_000


class _Held:
    """Findings of one code, reported once it is known whether the log is compacted. Those beyond ``limit`` are only
    counted."""

    def __init__(self, code: str, limit: int) -> None:
        self._code, self._limit = code, limit
        self._found: list[tuple[Any, ...]] = []
        self.more = 0

    def add(self, *finding: Any) -> None:
        """Adds the arguments of `Report.add` after the code."""
        if len(self._found) < self._limit:
            self._found.append(finding)
        else:
            self.more += 1

    def add_to(self, partition: PartitionCheck) -> None:
        """Reports the findings, unless the log is compacted."""
        if not partition.is_compacted:
            for finding in self._found:
                partition.report.add(self._code, *finding)
            partition.report.more(self._code, partition.name, self.more)


def _differing(entry: ProducerStateEntry, right: ProducerStateEntry, last_seen: int, begins_later: bool) -> str | None:
    """Returns the first wrong field, None if all are right.

    A broker in which the producer had expired knows only later batches: perhaps only a marker, or no marker.
    """
    if entry.producer_epoch != right.producer_epoch:
        return f"epoch {entry.producer_epoch}, by the log {right.producer_epoch}"
    first, right_first = entry.current_txn_first_offset, right.current_txn_first_offset
    if first != right_first and not (begins_later and 0 <= first < right_first):
        return f"open transaction from offset {first}, by the log {right_first}"
    batch = (entry.last_sequence, entry.last_offset, entry.offset_delta)
    right_batch = (right.last_sequence, right.last_offset, right.offset_delta)
    # 0.11 stored a marker's offset as that of the last batch; later releases keep it until the next batch.
    is_marker = entry.offset_delta == 0 and right.last_offset < entry.last_offset <= last_seen
    if batch != right_batch and entry.has_batch and not (is_marker and batch[0] == right_batch[0]):
        return f"sequence, offset and delta of its last batch {batch}, by the log {right_batch}"
    if entry.timestamp != right.timestamp:
        return f"timestamp {entry.timestamp}, by the log {right.timestamp}"
    if entry.coordinator_epoch not in (right.coordinator_epoch, -1):
        return f"coordinator epoch {entry.coordinator_epoch}, by the log {right.coordinator_epoch}"
    return None


_MAX_WRONG_ENTRIES = 10_000
"""Limit of wrong entries of one file; the rest of such a file is not checked."""

_WIDTH = TransactionIndex.LAYOUT.size


class _IndexCheck:
    """Checks the .txnindex of a segment that was read completely; ``states`` has replayed its batches.

    An entry is in the index of the segment with the ABORT marker. Up to 2.7 a marker of a transaction without data had
    an entry, too. The start of a transaction is unknown if the log starts later, was compacted or is damaged.
    """

    def __init__(self, partition: PartitionCheck, states: ProducerStates, segment: CheckedSegment) -> None:
        self._partition, self._report = partition, partition.report
        self._segment, self._path = segment, segment.beside(TRANSACTION_INDEX)
        self._severity = WARNING if partition.broker.will_be_scanned(segment.next_offset) else ERROR
        self._is_live = partition.settings.is_live and segment.is_last
        # Otherwise transactions may have begun in missing batches.
        is_all = partition.is_whole and partition.segments[0].base_offset == 0
        self._knows_all = is_all and states.is_complete and not partition.is_compacted
        self._era = partition.settings.era
        self._wrong = self._damaged = 0

    def judge(self, aborts: list[Abort]) -> None:
        """Compares the file with the ABORT markers of the segment."""
        if os.path.basename(self._path) not in self._partition.names:
            needed = [abort for abort in aborts if abort.filled and abort.is_certain]
            if needed and not self._partition.is_bare and is_part_of_log(self._segment.file.name):
                text = f"aborted transactions whose marker is in {self._segment.file.name}: {len(needed)}"
                self._add("transaction-index-missing", text, needed[0].last_offset, {"count": len(needed)})
            return
        try:
            with open_source(self._path) as source:
                self._judge_entries(TransactionIndex(source.buffer, self._segment.base_offset or 0), aborts)
        except PathError as error:
            self._add("transaction-index-damaged", f"it cannot be read: {error}")

    def _judge_entries(self, index: TransactionIndex, aborts: list[Abort]) -> None:
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
            self._add_entry("transaction-index-damaged", text, index.size - over, severity, over)
        needed = [abort for abort in left.values() if abort.filled and abort.is_certain]
        if len(needed) > self._damaged:  # otherwise these may be the damaged entries
            for abort in needed:
                producer, first, last = abort.producer_id, abort.first_offset, abort.last_offset
                text = f"producer {producer}: offsets {first} to {last} have no entry"
                details = {"producerId": producer, "firstOffset": first, "lastOffset": last}
                self._add("transaction-index-incomplete", text, last, details)

    def _add(self, code: str, text: str, offset: int | None = None, details: Details = NO_DETAILS) -> None:
        self._report.add(code, self._path, text, offset=offset, severity=self._severity, details=details)

    def _add_entry(self, code: str, text: str, position: int, severity: str, length: int = _WIDTH) -> None:
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
                self._add_entry("transaction-index-wrong-entry", text, position, self._severity)
        elif found < expected and self._knows_all:
            text = f"last stable offset {found} is below {expected}: consumers search one segment more"
            self._add_entry("transaction-index-wrong-entry", text, position, WARNING)
        return True

    def _misfit(self, entry: AbortedTxn, before: AbortedTxn | None, abort: Abort | None, position: int) -> None:
        if entry.version:
            is_read = entry.version_as_kafka_reads_it <= 0
            brokers = "Kafka 4.4 does not start" if is_read else "no broker starts"
            text = f"version {entry.version} is not {TRANSACTION_VERSION}: {brokers} on it"
            if is_read and not self._era.refuses_index_versions:
                self._add_entry("transaction-index-wrong-entry", text, position, WARNING)
            else:
                self._add_entry("transaction-index-damaged", text, position, ERROR)
        elif problem := TransactionIndex(b"", self._segment.base_offset or 0).problem(entry, before):
            self._add_entry("transaction-index-damaged", problem[1], position, self._severity)
        elif abort is not None:
            text = (
                f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}; "
                f"the marker there is that of producer {abort.producer_id}"
            )
            text += f", whose transaction began at {abort.first_offset}" if abort.first_offset >= 0 else ""
            self._add_entry("transaction-index-wrong-entry", text, position, self._severity)
        elif not self._segment.is_damaged:
            if entry.last_offset >= (self._segment.next_offset or 0) and (self._is_live or self._segment.has_grown()):
                return  # the marker was written after the segment was read
            text = f"producer {entry.producer_id}: there is no marker of an aborted transaction at {entry.last_offset}"
            self._add_entry("transaction-index-wrong-entry", text, position, self._severity)


CLOCKS_DIFFER_MS = 3600 * 1000
"""The largest difference allowed between clocks of producers and brokers."""

_EVENTS = {
    kernel.SEQUENCE: (
        "producer-sequence-gap", "{who}: sequence {b} where {a} is next", {"sequence": "b", "expectedSequence": "a"},
    ),
    kernel.EPOCH_FALLS: ("producer-epoch-falls", "{who}: epoch {b} of a {what} follows {a}", {"epochBefore": "a"}),
    kernel.COORDINATOR_FALLS: (
        "coordinator-epoch-falls", "{who}: coordinator epoch {b} follows {a}",
        {"coordinatorEpoch": "b", "epochBefore": "a"},
    ),
    kernel.OUTSIDE: (
        "batch-outside-transaction", "{who} has had a transaction open since offset {a}", {"startOffset": "a"},
    ),
    kernel.LOST_MARKER: (
        "hanging-transaction",
        "{who}: epoch {c} writes, and no marker has ended the transaction of epoch {b} that began at {a}",
        {"epochBefore": "b", "startOffset": "a"},
    ),
    kernel.BAD_MARKER: ("bad-control-record", "{who}: the control record cannot be read", {}),
}  # fmt: skip
"""Code, message and details by the kind of event; details name fields of the event."""


class ProducerRule(Rule):
    """Replays the producers of a partition from its first segment to its last. Does nothing at level quick."""

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        self._states = ProducerStates((), partition.settings.now_ms, SHOWN_PER_FILE, partition.buffers.int64s)
        self._snapshots: list[int] = []
        """Offsets of the snapshots that the replay has not reached, in descending order."""
        if partition.is_whole and "snapshot" in partition.endings:
            stems = (name.removesuffix(SNAPSHOT) for name in partition.names if name.endswith(SNAPSHOT))
            numbers = {int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdecimal()}
            self._snapshots = sorted(numbers, reverse=True)
        self._has_snapshots = bool(self._snapshots)
        self._mismatches = _Held("producer-snapshot-mismatch", _KEPT_SNAPSHOT_FINDINGS)
        self._has_indexes = any("txnindex" in ending for ending in partition.endings)
        self._aborts: list[Abort] = []
        self._shown = [0] * kernel.KINDS
        self._gaps = _Held("producer-sequence-gap", _KEPT_FINDINGS)
        self._is_on_segment = False

    def _snapshot_path(self, offset: int) -> str:
        return self.partition.path(segment_stem(offset) + SNAPSHOT)

    def begin(self, segment: CheckedSegment) -> None:
        # 0.7 has neither producers nor logical offsets.
        self._is_on_segment = self.partition.settings.level != QUICK and not segment.file.is_07
        if self._is_on_segment:
            self._states.state.clear()
            self._aborts = []
            if any(self._shown):
                self._shown = [0] * kernel.KINDS

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        if not self._is_on_segment:
            return
        start = 0
        while True:
            until = self._snapshots[-1] if self._snapshots else None
            start, events, aborts = self._states.replay(headers.rows, headers.count, start, until)
            for event in events:
                self._event(segment, headers[event.row], event)
            self._aborts += aborts
            if start == headers.count:
                return
            self._judge_snapshot()

    def _event(self, segment: CheckedSegment, batch: BatchRow, event: producer_state.Event) -> None:
        kind, _, a, b, c = event
        self._shown[kind] += 1
        if kind == kernel.SEQUENCE and c:
            return  # offsets are missing in between, and the gap is reported
        code, text, names = _EVENTS[kind]
        if kind == kernel.BAD_MARKER and batch.producer_id < 0:
            text = "control batch without a producer: consumers skip its records"
        elif kind == kernel.BAD_MARKER and a >= 0:
            text = "{who}: control record of type {a}"
        fields = {"a": a, "b": b, "c": c}
        text = text.format(who=f"producer {batch.producer_id}", what="marker" if c else "batch", **fields)
        details = {"producerId": batch.producer_id, "producerEpoch": batch.producer_epoch}
        details |= {name: fields[field] for name, field in names.items()}
        place = batch.position, batch.size, batch.first_offset
        if kind == kernel.SEQUENCE:
            self._gaps.add(segment.path, text, *place, None, details)
        else:
            self.report.add(code, segment.path, text, *place, details=details)

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        if self._is_on_segment:
            self._states.state.is_after_damage = True

    def unread(self, segment: CheckedSegment) -> None:
        self._states.state.is_after_damage = True

    def end(self, segment: CheckedSegment) -> None:
        if not self._is_on_segment:
            return
        for kind, (code, *_) in _EVENTS.items() if any(self._shown) else ():
            more = self._states.state.totals[kind] - self._shown[kind]
            if kind == kernel.SEQUENCE:
                self._gaps.more += more
            else:
                self.report.more(code, segment.path, more)
        is_local = self.partition.directory is not None and segment.path != "-"
        if is_local and (self._aborts or self._has_indexes):
            _IndexCheck(self.partition, self._states, segment).judge(self._aborts)

    def finish(self) -> None:
        if self.partition.settings.level == QUICK:
            return
        oldest = next(self._states.ongoing(), None)
        self.partition.first_open_offset = None if oldest is None else oldest.first_offset
        self._gaps.add_to(self.partition)
        if self._states.is_full:
            text = f"only the first {len(self._states)} producers were followed"
            self.report.add("too-many-producers", self.partition.name, text, details={"count": len(self._states)})
        if self.partition.is_whole:
            self._open_transactions()
            self._finish_snapshots()

    def _open_transactions(self) -> None:
        bases = [segment.base_offset or 0 for segment in self.partition.segments]
        for number, transaction in enumerate(self._states.ongoing()):
            if number >= SHOWN_PER_FILE:
                more = self._states.state.open - number
                self.report.more("open-transaction", self.partition.name, more)
                break
            segment = self.partition.segments[max(0, bisect_right(bases, transaction.first_offset) - 1)]
            # The least age, by the clock of brokers (markers), else by that of producers. If records are older than an
            # earlier marker, their timestamps are not from a clock.
            age, state = 0, self._states.state
            if transaction.first_marker >= 0:
                age = int(state.newest_marker - transaction.first_marker)
            elif 0 <= transaction.timestamp and state.newest_marker - CLOCKS_DIFFER_MS <= transaction.timestamp:
                age = int(state.newest_data - transaction.timestamp)
            text = (
                f"producer {transaction.producer_id} epoch {transaction.producer_epoch}, batches: {transaction.batches}"
            )
            since_ms = self.partition.settings.now_ms - transaction.timestamp if transaction.timestamp >= 0 else -1
            if age > 0:
                text += f", open for at least {show_span(age)} by the timestamps in the log"
            elif since_ms >= 0:
                text += f", begun {show_span(since_ms)} ago"
            is_hanging = age > TRANSACTION_LIMIT_MS and transaction.is_certain
            if not transaction.is_certain:
                text += "; its end may be in damaged bytes"
            code = "hanging-transaction" if is_hanging else "open-transaction"
            details = {
                "producerId": transaction.producer_id,
                "producerEpoch": transaction.producer_epoch,
                "firstOffset": transaction.first_offset,
                "firstTimestamp": transaction.timestamp if transaction.timestamp >= 0 else None,
                "ageMs": age if age > 0 else since_ms if since_ms >= 0 else None,
                "batches": transaction.batches,
            }
            end = self.partition.segments[-1].next_offset
            if number == 0 and end is not None:  # it holds the last stable offset
                details |= {
                    "lastStableOffset": transaction.first_offset,
                    "waitingOffsets": max(0, end - transaction.first_offset),
                }
            place = transaction.position, None, transaction.first_offset
            self.report.add(code, segment.path, text, *place, details=details)

    def _judge_snapshot(self) -> None:
        """Checks the next snapshot when all batches below it were replayed, or the log has ended.

        A snapshot lacks producers that have expired (idle for a day, or 7 days in older releases, by the broker's clock
        and the records' timestamps, with restarts in between). So a missing producer is no error unless it has an open
        transaction, which never expires.
        """
        offset = self._snapshots.pop()
        path = self._snapshot_path(offset)
        # If no batch ends at its offset, batches are missing or the log was compacted.
        is_known = self._states.next_offset in (offset, 0)
        try:
            # One byte more than a small file shows whether it is larger, without a query of its size.
            small = Place(path).head(_SMALL_BYTES + 1)
            if len(small) <= _SMALL_BYTES:
                self._judge_bytes(path, small, is_known)
                return
            with open_source(path) as source:
                if source.size >= _TOO_LARGE_BYTES:
                    text = f"no broker can read a snapshot of {source.size} bytes"
                    self.report.add("producer-snapshot-damaged", path, text, 0, source.size)
                else:
                    self._judge_bytes(path, source.buffer, is_known)
        except (OSError, PathError) as error:
            reason = getattr(error, "strerror", None) or error
            self.report.add("producer-snapshot-damaged", path, f"it cannot be read: {reason}")

    def _judge_bytes(self, path: str, buffer: Sliceable, is_known: bool) -> None:
        snapshot = producer_state.ProducerSnapshot(buffer)
        if refusal := snapshot.kafka_refusal():
            problem = next(iter(snapshot.problems()), None)
            position, length = (problem.position, problem.length) if problem else (0, snapshot.size)
            why = problem.message if problem else refusal
            self.report.add("producer-snapshot-damaged", path, why, position, length)
            return
        if not (is_known and self._states.is_complete) or snapshot.readable_count > producer_state.MAX_PRODUCERS:
            return
        for number, entry, index in self._states.differing(snapshot, buffer):
            if text := self._misfit(entry, index):
                offset = entry.last_offset if entry.last_offset >= 0 else None
                self._mismatches.add(path, text, producer_state.HEADER_BYTES + number * ENTRY.size, None, offset)
        if self._states.open_in_snapshot < self._states.state.open:
            # Up to 2.3 a broker dropped transactions below the log start, too.
            log_start = self.partition.broker.log_start_offset or 0
            listed = {entry.producer_id for entry in snapshot}
            for transaction in self._states.ongoing():
                if transaction.producer_id not in listed and transaction.first_offset >= log_start:
                    text = f"producer {transaction.producer_id}, which has a transaction open, is not in it"
                    self._mismatches.add(path, text, 0, None, transaction.first_offset)

    def _misfit(self, entry: ProducerStateEntry, index: int) -> str | None:
        """Returns the error of an entry that differs from the log; None if a broker may have written it."""
        begins_later = self.partition.segments[0].base_offset != 0
        if index < 0:
            known = None if begins_later else self.partition.accepted_gaps  # erased with the batches, or salvaged
            is_explained = begins_later or (known and known.missing_in(entry.last_offset, entry.last_offset))
            return None if is_explained else f"producer {entry.producer_id} has no batch below it"
        wrong = ""
        for marker_effect in (producer_state.MARKER_SETS_TIMESTAMP, producer_state.MARKER_IGNORED):
            right = self._states.entry(index, marker_effect)
            differing = _differing(entry, right, self._states.last_seen(index), begins_later)
            if not differing:
                return None
            wrong = wrong or differing
        return f"producer {entry.producer_id}: {wrong}"

    def _finish_snapshots(self) -> None:
        """Reports snapshots beyond the log end, pending findings, and a missing snapshot."""
        segments, broker = self.partition.segments, self.partition.broker
        if not self._has_snapshots and not self._states.state.batches:
            return  # neither snapshots nor producers
        end = max((segment.next_offset or 0 for segment in segments), default=0)
        left = self._snapshots
        while left and left[-1] <= end:
            self._judge_snapshot()
        is_final = left and segments and not (self.partition.settings.is_live or segments[-1].has_grown())
        # If the log has lost its end, that is reported instead.
        if is_final and not segments[-1].is_damaged and (broker.high_watermark or 0) <= end:
            for offset in reversed(left[-SHOWN_PER_FILE:]):
                text = f"the log ends at offset {end}, it once had records up to {offset}"
                details = {"logEndOffset": end, "offset": offset}
                path = self._snapshot_path(offset)
                self.report.add("producer-snapshot-beyond-end", path, text, offset=end, details=details)
            self.report.more("producer-snapshot-beyond-end", self.partition.name, len(left) - SHOWN_PER_FILE)
        self._mismatches.add_to(self.partition)
        if self._has_snapshots or self.partition.is_bare or (broker.was_clean is None and len(segments) < 2):
            return
        # A log with producers has a snapshot after its first roll or clean stop.
        text = f"batches with a producer id: {self._states.state.batches}"
        details = {"batches": self._states.state.batches}
        # After an unclean stop a broker replays the log; after a clean one it assumes that there are no producers.
        severity = INFO if broker.was_clean is False else None
        self.report.add("producer-snapshot-missing", self.partition.name, text, severity=severity, details=details)
