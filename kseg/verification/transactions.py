"""Checks producers and transactions: sequences, epochs, markers, open transactions, and their side files.

The state of all producers is replayed while the batches are read; `transaction_indexes` and `producer_snapshots`
compare the files with it.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_POSITION,
    BATCH_PRODUCER_EPOCH,
    BATCH_PRODUCER_ID,
    BATCH_SIZE,
    BATCH_WIDTH,
)
from kseg.kernel.state import producer_table as kernel
from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.segment.items import Damage
from kseg.segment.survey import QUICK, HeaderRows
from kseg.segment.times import show_span
from kseg.sidefiles.producer_state import Abort, Event, OngoingTransaction, ProducerStates
from kseg.verification.producer_snapshots import ProducerSnapshots
from kseg.verification.report import SHOWN_PER_FILE, Details
from kseg.verification.rule import Rule
from kseg.verification.transaction_indexes import TransactionIndexes

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition


CLOCKS_DIFFER_MS = 3600 * 1000
"""The largest difference allowed between clocks of producers and brokers."""

_KEPT_FINDINGS = 10_000
_SHOWN_TRANSACTIONS = SHOWN_PER_FILE
_CODES = {
    kernel.SEQUENCE: "producer-sequence-gap",
    kernel.EPOCH_FALLS: "producer-epoch-falls",
    kernel.COORDINATOR_FALLS: "coordinator-epoch-falls",
    kernel.OUTSIDE: "batch-outside-transaction",
    kernel.LOST_MARKER: "hanging-transaction",
    kernel.BAD_MARKER: "bad-control-record",
}


class _Gap(NamedTuple):
    """A gap in a producer's sequence, reported once it is known whether the log is compacted."""

    file: str
    message: str
    position: int
    length: int
    offset: int
    details: Details


class ProducerRule(Rule):
    """Replays the producers of a partition from its first segment to its last. Does nothing at level quick."""

    def __init__(self, partition: "Partition") -> None:
        super().__init__(partition)
        self._is_on = partition.level != QUICK
        if not self._is_on:
            return
        self._states = ProducerStates(now_ms=partition.now_ms, limit=SHOWN_PER_FILE, columns=partition.buffers.int64s)
        self._indexes = TransactionIndexes(partition, self._states)
        self._snapshots = ProducerSnapshots(partition, self._states)
        self._aborts: list[Abort] = []
        self._shown = [0] * kernel.KINDS
        self._gaps: list[_Gap] = []
        self._more_gaps = 0
        self._is_on_segment = False

    def begin(self, segment: "CheckedSegment") -> None:
        # 0.7 has neither producers nor logical offsets.
        self._is_on_segment = self._is_on and not segment.file.is_07
        if self._is_on_segment:
            self._states.begin()
            self._aborts = []
            if any(self._shown):
                self._shown = [0] * kernel.KINDS

    def headers(self, segment: "CheckedSegment", headers: HeaderRows) -> None:
        if not self._is_on_segment:
            return
        start = 0
        while True:
            until = self._snapshots.next_offset
            start, events, aborts = self._states.replay(headers.rows, headers.count, start, until)
            for event in events:
                self._event(segment, headers, event)
            self._aborts += aborts
            if start == headers.count:
                return
            self._snapshots.reached()

    def _event(self, segment: "CheckedSegment", headers: HeaderRows, event: Event) -> None:
        kind, row, a, b, c = event
        self._shown[kind] += 1
        at = row * BATCH_WIDTH
        position, size, offset = (headers.rows[at + k] for k in (BATCH_POSITION, BATCH_SIZE, BATCH_FIRST_OFFSET))
        producer, epoch = headers.rows[at + BATCH_PRODUCER_ID], headers.rows[at + BATCH_PRODUCER_EPOCH]
        who, details = f"producer {producer}", {"producerId": producer, "producerEpoch": epoch}
        if kind == kernel.SEQUENCE:
            if c:
                return  # offsets are missing in between, and the gap is reported
            text = f"{who}: sequence {b} where {a} is next"
            details |= {"sequence": b, "expectedSequence": a}
            if len(self._gaps) < _KEPT_FINDINGS:
                self._gaps.append(_Gap(segment.path, text, position, size, offset, details))
            else:
                self._more_gaps += 1
            return
        if kind == kernel.EPOCH_FALLS:
            text = f"{who}: epoch {b} of a {'marker' if c else 'batch'} follows {a}"
            details["epochBefore"] = a
        elif kind == kernel.COORDINATOR_FALLS:
            text = f"{who}: coordinator epoch {b} follows {a}"
            details |= {"coordinatorEpoch": b, "epochBefore": a}
        elif kind == kernel.OUTSIDE:
            text = f"{who} has had a transaction open since offset {a}"
            details["startOffset"] = a
        elif kind == kernel.LOST_MARKER:
            text = f"{who}: epoch {c} writes, and no marker has ended the transaction of epoch {b} that began at {a}"
            details |= {"epochBefore": b, "startOffset": a}
        elif headers.rows[at + BATCH_PRODUCER_ID] < 0:
            text = "control batch without a producer: consumers skip its records"
        else:
            text = f"{who}: control record of type {a}" if a >= 0 else f"{who}: the control record cannot be read"
        self.report.add(_CODES[kind], segment.path, text, position, size, offset, details=details)

    def damage(self, segment: "CheckedSegment", damage: Damage) -> None:
        if self._is_on_segment:
            self._states.mark_damaged()

    def unread(self, segment: "CheckedSegment") -> None:
        if self._is_on:
            self._states.mark_damaged()

    def end(self, segment: "CheckedSegment") -> None:
        if not self._is_on_segment:
            return
        for kind, code in _CODES.items() if self._states.has_events else ():
            more = self._states.count_of(kind) - self._shown[kind]
            if kind == kernel.SEQUENCE:
                self._more_gaps += more
            else:
                self.report.more(code, segment.path, more)
        self._indexes.judge(segment, self._aborts)

    def finish(self) -> None:
        if not self._is_on:
            return
        oldest = next(self._states.ongoing(), None)
        self.partition.first_open_offset = None if oldest is None else oldest.first_offset
        if not self.partition.is_compacted:
            for gap in self._gaps:
                place = gap.position, gap.length, gap.offset
                self.report.add("producer-sequence-gap", gap.file, gap.message, *place, details=gap.details)
            self.report.more("producer-sequence-gap", self.partition.name, self._more_gaps)
        if self._states.is_full:
            text = f"only the first {len(self._states)} producers were followed"
            details = {"count": len(self._states)}
            self.report.add("too-many-producers", self.partition.name, text, details=details)
        if self.partition.is_whole:
            self._open_transactions()
            self._snapshots.finish()

    def _open_transactions(self) -> None:
        bases = [segment.base_offset or 0 for segment in self.partition.segments]
        for number, transaction in enumerate(self._states.ongoing()):
            if number >= _SHOWN_TRANSACTIONS:
                more = self._states.open_count - number
                self.report.more("open-transaction", self.partition.name, more)
                break
            segment = self.partition.segments[max(0, bisect_right(bases, transaction.first_offset) - 1)]
            age = self._age_ms(transaction)
            text = (
                f"producer {transaction.producer_id} epoch {transaction.producer_epoch}, batches: {transaction.batches}"
            )
            since_ms = self.partition.now_ms - transaction.timestamp if transaction.timestamp >= 0 else -1
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

    def _age_ms(self, transaction: OngoingTransaction) -> int:
        """Returns its least age in ms: by the clock of brokers (markers), else by that of producers.

        If records are older than an earlier marker, their timestamps are not from a clock.
        """
        state = self._states.state
        if transaction.first_marker >= 0:
            return int(state.newest_marker - transaction.first_marker)
        if 0 <= transaction.timestamp and state.newest_marker - CLOCKS_DIFFER_MS <= transaction.timestamp:
            return int(state.newest_data - transaction.timestamp)
        return 0
