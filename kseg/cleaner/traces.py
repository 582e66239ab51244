"""Extracts from a segment's headers the state that later segments need, so that they can be cleaned independently.

`kseg.cleaner.transactions` follows the batches of a whole log. Between two markers of a producer only its first and
last batch can change the transaction state. Following only these and the markers gives the same state at the start of
a segment as following all batches before it.
"""

from dataclasses import dataclass

from kseg.cleaner.reading import Window, windows
from kseg.cleaner.transactions import CleanedTransactions
from kseg.kernel.layout.headers import CONTROL, TRANSACTIONAL
from kseg.kernel.layout.rows import BATCH_ATTRIBUTES, BATCH_COUNT, BATCH_LAST_OFFSET, BATCH_PRODUCER_ID, BATCH_WIDTH
from kseg.stores.buffers import Buffers


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
            transactions.discardable(memoryview(self.rows).cast("q"), len(self.rows) // (8 * BATCH_WIDTH))


def read_trace(path: str, buffers: Buffers) -> Trace:
    """Reads the trace of one segment without verifying checksums. Raises DamagedError, PathError."""
    records: int | None = 0
    last_offset = -1
    collector = _TraceCollector()
    for window in windows(path, buffers, skips_checksums=True):
        counts = window.rows[BATCH_COUNT : window.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        records = None if records is None or min(counts) < 0 else records + sum(counts)
        last_offset = window.rows[(window.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]
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
        rows = window.rows
        attributes = rows[BATCH_ATTRIBUTES : window.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        for i, found in enumerate(attributes):
            if not found & (TRANSACTIONAL | CONTROL):
                continue
            at = i * BATCH_WIDTH
            producer = rows[at + BATCH_PRODUCER_ID]
            row = rows[at + BATCH_LAST_OFFSET], rows[at : at + BATCH_WIDTH].tobytes()
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
