"""Transaction state during cleaning: finds aborted data and removable markers (CleanedTransactionMetadata).

It follows the batches in order, over all segments of a round. The .txnindex files of the source segments give the
aborted transactions.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from kseg.cleaner.reading import Window, windows
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import int64s
from kseg.kernel.layout.headers import CONTROL, TRANSACTIONAL
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.indexes import AbortedTxn
from kseg.stores.buffers import Buffers


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
    """``records``: the record count, None if v0 or v1 headers do not give it; ``last_offset``: -1 for an empty segment.

    ``rows``: BATCH_* rows of the batches that affect transactions, as bytes.
    """

    records: int | None
    last_offset: int
    rows: bytes = b""

    def follow(self, transactions: CleanedTransactions) -> None:
        """Advances the transaction state to the end of the segment."""
        if self.rows:
            transactions.discardable(HeaderRows(memoryview(self.rows).cast("q"), len(self.rows) // (8 * BATCH_WIDTH)))


def read_trace(path: str, buffers: Buffers) -> Trace:
    """Reads the trace of one segment without verifying checksums. Raises DamagedError, PathError."""
    records: int | None = 0
    last_offset = -1
    collector = _TraceCollector()
    for window in windows(path, buffers, skips_checksums=True):
        counts = window.records
        records = None if records is None or min(counts) < 0 else records + sum(counts)
        last_offset = window[-1].last_offset
        collector.take(window)
    return Trace(records, last_offset, collector.rows())


class _TraceCollector:
    """Collects the batches that affect transactions.

    ``_latest``: by producer, its latest batch since the first one after a marker; None if that is the first itself.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, bytes]] = []
        self._latest: dict[int, tuple[int, bytes] | None] = {}

    def take(self, window: Window) -> None:
        for i, found in enumerate(window.attributes):
            if not found & (TRANSACTIONAL | CONTROL):
                continue
            producer, row = window[i].producer_id, (window[i].last_offset, window.part(i, i + 1).rows.tobytes())
            if found & CONTROL:
                self._keep(self._latest.pop(producer, None))
                self._keep(row)
            elif producer in self._latest:
                self._latest[producer] = row
            else:
                self._latest[producer] = None
                self._keep(row)

    def _keep(self, row: tuple[int, bytes] | None) -> None:
        if row is not None:
            self._kept.append(row)

    def rows(self) -> bytes:
        for row in self._latest.values():
            self._keep(row)
        self._latest = {}
        return b"".join(row for _, row in sorted(self._kept))
