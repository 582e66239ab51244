"""Checks .snapshot files: readable by a broker, consistent with the log, and not beyond its end.

A snapshot lacks producers that have expired (idle for a day, or 7 days in older releases, by the broker's clock and the
records' timestamps, with restarts in between). So a missing producer is no error unless it has an open transaction,
which never expires.
"""

import os
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.findings.table import INFO
from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import SNAPSHOT
from kseg.segment.files import segment_stem
from kseg.sidefiles.producer_state import (
    ENTRY,
    HEADER_BYTES,
    MARKER_IGNORED,
    MARKER_SETS_TIMESTAMP,
    MAX_PRODUCERS,
    ProducerSnapshot,
    ProducerStateEntry,
    ProducerStates,
)
from kseg.stores.regular_files import first_bytes
from kseg.stores.source import open_source
from kseg.verification.partition import Partition
from kseg.verification.report import SHOWN_PER_FILE

if TYPE_CHECKING:
    from kseg.segment.files import segment_stem


_SMALL_BYTES = 4096
_TOO_LARGE_BYTES = (1 << 31) - 8
"""The smallest file that no broker can read, because a broker reads it into one array."""
_KEPT_FINDINGS = 1000


class ProducerSnapshots:
    """Checks the snapshots of a partition, each when the replay of ``states`` reaches its offset."""

    def __init__(self, partition: "Partition", states: ProducerStates) -> None:
        self._partition = partition
        self._report = partition.report
        self._states = states
        self._offsets = sorted(self._listed(), reverse=True)
        self._count = len(self._offsets)
        self._found: list[tuple[str, str, int, int]] = []
        self._more = 0

    def _listed(self) -> set[int]:
        if not self._partition.is_whole or "snapshot" not in self._partition.endings:
            return set()
        stems = (name.removesuffix(SNAPSHOT) for name in self._partition.names if name.endswith(SNAPSHOT))
        return {int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdecimal()}

    def _path(self, offset: int) -> str:
        return os.path.join(self._partition.directory or "", segment_stem(offset) + SNAPSHOT)

    @property
    def next_offset(self) -> int | None:
        """Offset of the next snapshot that the replay will reach, None if none is left."""
        return self._offsets[-1] if self._offsets else None

    def reached(self) -> None:
        """Called when all batches below the next snapshot were replayed, or the log has ended."""
        offset = self._offsets.pop()
        # If no batch ends at its offset, batches are missing or the log was compacted.
        self._judge(offset, is_known=self._states.next_offset in (offset, 0))

    def _judge(self, offset: int, is_known: bool) -> None:
        path = self._path(offset)
        try:
            # One byte more than a small file shows whether it is larger, without a query of its size.
            small = first_bytes(path, _SMALL_BYTES + 1)
            if len(small) <= _SMALL_BYTES:
                self._judge_bytes(path, small, is_known)
                return
            with open_source(path) as source:
                if source.size >= _TOO_LARGE_BYTES:
                    text = f"no broker can read a snapshot of {source.size} bytes"
                    self._report.add("producer-snapshot-damaged", path, text, 0, source.size)
                else:
                    self._judge_bytes(path, source.buffer, is_known)
        except (OSError, PathError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._report.add("producer-snapshot-damaged", path, f"it cannot be read: {reason}")

    def _judge_bytes(self, path: str, buffer: Sliceable, is_known: bool) -> None:
        snapshot = ProducerSnapshot(buffer)
        if refusal := snapshot.kafka_refusal():
            problem = next(iter(snapshot.problems()), None)
            position, length = (problem.position, problem.length) if problem else (0, snapshot.size)
            text = problem.message if problem else refusal
            self._report.add("producer-snapshot-damaged", path, text, position, length)
        elif is_known:
            self._compare(path, snapshot, buffer)

    def _compare(self, path: str, snapshot: ProducerSnapshot, buffer: Sliceable) -> None:
        if not self._states.is_complete or snapshot.readable_count > MAX_PRODUCERS:
            return
        for number, entry, index in self._states.differing(snapshot, buffer):
            if text := self._misfit(entry, index):
                self._keep(path, text, HEADER_BYTES + number * ENTRY.size, entry.last_offset)
        if self._states.open_in_snapshot < self._states.open_count:
            # Up to 2.3 a broker dropped transactions below the log start, too.
            log_start = self._partition.broker.log_start_offset or 0
            listed = {entry.producer_id for entry in snapshot}
            for transaction in self._states.ongoing():
                if transaction.producer_id not in listed and transaction.first_offset >= log_start:
                    text = f"producer {transaction.producer_id}, which has a transaction open, is not in it"
                    self._keep(path, text, 0, transaction.first_offset)

    def _keep(self, path: str, text: str, position: int, offset: int) -> None:
        if len(self._found) < _KEPT_FINDINGS:
            self._found.append((path, text, position, offset))
        else:
            self._more += 1

    def _misfit(self, entry: ProducerStateEntry, index: int) -> str | None:
        """Returns the error of an entry that differs from the log; None if a broker may have written it."""
        begins_later = self._partition.segments[0].base_offset != 0
        if index < 0:
            return None if begins_later else f"producer {entry.producer_id} has no batch below it"
        wrong = ""
        for marker_effect in (MARKER_SETS_TIMESTAMP, MARKER_IGNORED):
            right = self._states.entry(index, marker_effect)
            differing = _differing(entry, right, self._states.last_seen(index), begins_later)
            if not differing:
                return None
            wrong = wrong or differing
        return f"producer {entry.producer_id}: {wrong}"

    def finish(self) -> None:
        """Reports snapshots beyond the log end, and pending findings."""
        if not self._count and not self._states.state.batches:
            return  # neither snapshots nor producers
        end = max((segment.next_offset or 0 for segment in self._partition.segments), default=0)
        while self._offsets and self._offsets[-1] <= end:
            self.reached()
        self._beyond(end)
        if not self._partition.is_compacted:
            for path, text, position, offset in self._found:
                known = offset if offset >= 0 else None
                self._report.add("producer-snapshot-mismatch", path, text, position, None, known)
            self._report.more("producer-snapshot-mismatch", self._partition.name, self._more)
        if not self._count:
            self._missing()

    def _beyond(self, end: int) -> None:
        segments, high_watermark = self._partition.segments, self._partition.broker.high_watermark
        if not self._offsets or not segments or self._partition.is_live or segments[-1].has_grown():
            return
        if segments[-1].is_damaged or (high_watermark is not None and high_watermark > end):
            return  # the lost end of the log is reported
        for offset in reversed(self._offsets[-SHOWN_PER_FILE:]):
            text = f"the log ends at offset {end}, it once had records up to {offset}"
            details = {"logEndOffset": end, "offset": offset}
            self._report.add("producer-snapshot-beyond-end", self._path(offset), text, offset=end, details=details)
        self._report.more("producer-snapshot-beyond-end", self._partition.name, len(self._offsets) - SHOWN_PER_FILE)

    def _missing(self) -> None:
        """Reports a missing snapshot: a log with producers has one after its first roll or clean stop."""
        broker = self._partition.broker
        if self._partition.is_bare or (broker.was_clean is None and len(self._partition.segments) < 2):
            return
        text = f"batches with a producer id: {self._states.state.batches}"
        details = {"batches": self._states.state.batches}
        # After an unclean stop a broker replays the log; after a clean one it assumes that there are no producers.
        severity = INFO if broker.was_clean is False else None
        self._report.add("producer-snapshot-missing", self._partition.name, text, severity=severity, details=details)


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
