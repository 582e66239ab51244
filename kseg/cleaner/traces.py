"""What of a segment has to be known before those behind it can be cleaned apart from it: its headers tell it.

`kseg.cleaner.transactions` follows the batches of a whole log. Between two markers of a producer only the first and the
last of its batches can change what is known of it, so they and the markers stand for all: what is known where a segment
begins is the same, whether all batches before it were followed or these.
"""

from dataclasses import dataclass

from kseg.cleaner.reading import Window, windows
from kseg.cleaner.transactions import CONTROL, TRANSACTIONAL, CleanedTransactions
from kseg.kernel.native import BATCH_ATTRIBUTES, BATCH_COUNT, BATCH_LAST_OFFSET, BATCH_PRODUCER_ID, BATCH_WIDTH
from kseg.segment.buffers import Buffers


@dataclass(frozen=True, slots=True)
class Trace:
    """``records``: how many the headers tell, None where those of v0 and v1 do not; ``last_offset``: -1 for an empty
    segment; ``rows``: BATCH_* of the batches that matter to transactions, as bytes."""

    records: int | None
    last_offset: int
    rows: bytes = b""

    def follow(self, transactions: CleanedTransactions) -> None:
        """Brings what is known to the end of the segment."""
        if self.rows:
            transactions.discardable(memoryview(self.rows).cast("q"), len(self.rows) // (8 * BATCH_WIDTH))


def read_trace(path: str, buffers: Buffers) -> Trace:
    """Of one segment, whose checksums are not looked at. Raises DamagedError, PathError."""
    records: int | None = 0
    last_offset = -1
    telling = _Telling()
    for window in windows(path, buffers, believes=True):
        counts = window.rows[BATCH_COUNT : window.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        records = None if records is None or min(counts) < 0 else records + sum(counts)
        last_offset = window.rows[(window.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]
        telling.take(window)
    return Trace(records, last_offset, telling.rows())


class _Telling:
    """Collects the batches that matter; ``_latest``: of each producer the last since its first, or its marker."""

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
