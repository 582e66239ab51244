"""Batches at the start of a segment that were proven intact while it was unpacked, as header rows."""

from collections.abc import Iterator

from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.stores.extent import Extent

ROW_BYTES = 8 * BATCH_WIDTH
_ROWS_AT_ONCE = 8192


class ProvenBatches:
    """``count`` adjacent batches from the start of a segment up to ``end``: their checksums are right.

    ``rows``: their BATCH_* rows (`kseg.kernel.layout.rows`).
    """

    def __init__(self, end: int, count: int, rows: Extent) -> None:
        self.end, self.count = end, count
        self._rows = rows

    def headers(self) -> Iterator[tuple[memoryview, int]]:
        """Yields rows and their number; the rows belong to the caller."""
        for first in range(0, self.count, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, self.count - first)
            rows = bytearray(self._rows.pread(count * ROW_BYTES, first * ROW_BYTES))
            yield memoryview(rows).cast("q"), count
