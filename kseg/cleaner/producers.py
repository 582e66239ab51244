"""Producers during cleaning: their transactions, and their last batches."""

import heapq
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kseg.cleaner.log import CleanerSegment, segments_between, windows
from kseg.errors import errors_at
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import int64s
from kseg.formats.suffixes import SNAPSHOT
from kseg.kernel.layout.headers import CONTROL, TRANSACTIONAL
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.segment.files import file_names, segment_file
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.indexes import AbortedTxn
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import ProducerStateEntry, ProducerStates, read_producer_snapshot
from kseg.stores import trees
from kseg.stores.regular_files import read_regular
from kseg.stores.windows import Buffers

# Transaction state during cleaning: finds aborted data and removable markers (CleanedTransactionMetadata).
#
# It follows the batches in order, over all segments of a round. The .txnindex files of the source segments give the
# aborted transactions.


class CleanedTransactions:
    """``kept`` collects the entries of the new .txnindex; callers take them at the end of each segment."""

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        self._queue: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self._added = 0

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Adds aborted transactions with data in the following batches."""
        for transaction in aborted:
            heapq.heappush(self._queue, (transaction.first_offset, self._added, transaction))
            self._added += 1

    def discardable(self, headers: HeaderRows) -> list[int]:
        """Judges the next batches: 1 if a batch's records are aborted, or if it is a removable marker, else 0.

        A marker is removable if no data of its transaction is left. An empty list stands for all zeros.
        """
        attributes = headers.attributes
        if not any(found & (TRANSACTIONAL | CONTROL) for found in attributes):
            return []
        columns = attributes, headers.lasts, headers.producer_ids, headers.markers, headers.records
        return [self._judge(*row) for row in zip(*columns, strict=True)]

    def _judge(self, attributes: int, last_offset: int, producer: int, marker: int, records: int) -> int:
        if not attributes & (TRANSACTIONAL | CONTROL):
            return 0
        self._consume(last_offset)
        if attributes & CONTROL:
            return int(self._end(producer, marker, records))
        if producer in self._aborted:
            self._observed.add(producer)
            return 1
        self._committed.add(producer)
        return 0

    def _end(self, producer: int, marker: int, count: int) -> bool:
        if count == 0:
            return True
        if marker == ABORT:
            transaction = self._aborted.pop(producer, None)
            if transaction is not None and producer in self._observed:
                self._observed.discard(producer)
                self.kept.append(transaction)
                return False
            return True
        if marker == COMMIT:
            is_open = producer in self._committed
            self._committed.discard(producer)
            return not is_open
        return False

    def _consume(self, offset: int) -> None:
        while self._queue and self._queue[0][0] <= offset:
            transaction = heapq.heappop(self._queue)[2]
            if transaction.producer_id not in self._aborted:
                self._aborted[transaction.producer_id] = transaction
                self._observed.discard(transaction.producer_id)


def as_verdicts(numbers: list[int], count: int) -> memoryview:
    """Converts numbers to the int64 column that the kernel takes."""
    found = int64s(max(count, 1))
    for i, number in enumerate(numbers):
        if number:
            found[i] = number
    return found


# Traces: the state that later segments need, from a segment's headers, so that segments can be cleaned independently.
#
# `CleanedTransactions` follows the batches of a whole log. Between two markers of a producer only its first and
# last batch can change the transaction state. Following only these and the markers gives the same state at the start
# of a segment as following all batches before it.


@dataclass(frozen=True, slots=True)
class Trace:
    """``last_offset``: -1 for an empty segment. ``rows``: BATCH_* rows of the batches that affect transactions, as
    bytes."""

    last_offset: int
    rows: bytes = b""

    def follow(self, transactions: CleanedTransactions) -> None:
        """Advances the transaction state to the end of the segment."""
        if self.rows:
            transactions.discardable(HeaderRows(memoryview(self.rows).cast("q"), len(self.rows) // (8 * BATCH_WIDTH)))


def read_trace(path: str, buffers: Buffers) -> Trace:
    """Reads the trace of one segment without verifying checksums. Raises DamagedError, PathError."""
    last_offset = -1
    kept: list[tuple[int, bytes] | None] = []
    # By producer, its latest batch since the first one after a marker; None if that is the first itself.
    latest: dict[int, tuple[int, bytes] | None] = {}
    for window in windows(path, buffers, skips_checksums=True):
        last_offset = window[-1].last_offset
        for i, found in enumerate(window.attributes):
            if not found & (TRANSACTIONAL | CONTROL):
                continue
            producer, row = window[i].producer_id, (window[i].last_offset, window.part(i, i + 1).rows.tobytes())
            if found & CONTROL:
                kept += [latest.pop(producer, None), row]
            elif producer in latest:
                latest[producer] = row
            else:
                latest[producer] = None
                kept.append(row)
    rows = sorted(row for row in (*kept, *latest.values()) if row is not None)
    return Trace(last_offset, b"".join(row for _, row in rows))


# The producer state that a broker uses when it cleans a log: the newest snapshot and the batches after it.
#
# Source: UnifiedLog.lastRecordsOfActiveProducers, ProducerStateManager, KIP-360.


@dataclass(slots=True)
class Producers:
    """``end_offset`` of the log; ``first_unstable``: first offset of the oldest open transaction, None if none is open.

    ``last_offsets``: producer id by the last offset of its last data batch. ``last_epochs``: epoch by producer id, for
    producers that have only markers.
    """

    end_offset: int
    first_unstable: int | None = None
    last_offsets: dict[int, int] = field(default_factory=dict)
    last_epochs: dict[int, int] = field(default_factory=dict)

    def last_batches(self, headers: HeaderRows) -> list[int]:
        """Indexes of batches that are a producer's last one; their headers are kept for the next sequence number."""
        if not self.last_offsets and not self.last_epochs:
            return []
        found = []
        for i, (offset, producer) in enumerate(zip(headers.lasts, headers.producer_ids, strict=True)):
            if producer < 0:
                continue
            if offset in self.last_offsets:
                found += [i] * (self.last_offsets[offset] == producer)
            elif producer in self.last_epochs and headers[i].attributes & CONTROL:
                found += [i] * (self.last_epochs[producer] == headers[i].producer_epoch)
        return found


def read_producers(
    directory: str, segments: Sequence[CleanerSegment], now_ms: int, expiration_ms: int, buffers: Buffers
) -> Producers:
    """Reads the producer state. Raises DamagedError if the log is not intact up to its end."""
    entries, start = _newest_snapshot(directory)
    states, end = ProducerStates(entries), segments[-1].base_offset
    for segment in segments_between(segments, start, 1 << 63):
        for window in windows(segment.path, buffers):
            end = window[-1].last_offset + 1
            first = 0
            if window[0].last_offset < start:
                first = next((i for i, offset in enumerate(window.lasts) if offset >= start), window.count)
            states.replay(window.rows, window.count, first)
    found = Producers(end)
    for entry in states.entries():
        if entry.current_txn_first_offset < 0 and now_ms - entry.timestamp >= expiration_ms:
            continue
        if entry.has_batch:
            found.last_offsets[entry.last_offset] = entry.producer_id
        else:
            found.last_epochs[entry.producer_id] = entry.producer_epoch
    found.first_unstable = next((ongoing.first_offset for ongoing in states.ongoing()), None)
    return found


def _newest_snapshot(directory: str) -> tuple[list[ProducerStateEntry], int]:
    """Returns the entries and offset of the newest readable snapshot; no entries and 0 if there is none."""
    found = []
    for name in file_names(directory):
        file = segment_file(os.path.join(directory, name))
        if file.kind == SNAPSHOT and not file.leftover and file.base_offset is not None:
            found.append((file.base_offset, file.path))
    for offset, path in sorted(found, reverse=True):
        with errors_at(path):
            if trees.getsize(path) > MAX_ROOT_FILE_BYTES:
                continue
            items = list(read_producer_snapshot(read_regular(path, MAX_ROOT_FILE_BYTES)))
        if not problems_of(items):
            return entries_of(items), offset
    return [], 0
