"""What every era's decoder yields: rows of records over one payload (`kseg.kernel.native` tells the columns)."""

from collections.abc import Callable
from typing import Any

from kseg.kernel.native import HEADER_WIDTH, ROW_WIDTH
from kseg.limits import HEADERS_PER_CALL, MAX_BATCH_BYTES, ROWS_PER_CALL


class UndecodableError(Exception):
    """Raised where the records of a batch cannot be read any further; ``problem`` is a problem code."""

    def __init__(self, problem: str, message: str) -> None:
        super().__init__(message)
        self.problem = problem


def int64s(count: int) -> memoryview:
    """Zeroed int64 columns for the kernel."""
    return memoryview(bytearray(8 * count)).cast("q")


ALL = int64s(4)
"""What `kseg.kernel.columns` calls wanted, for one who wants every record."""
ALL[0], ALL[1], ALL[2], ALL[3] = -(1 << 63), (1 << 63) - 1, -(1 << 63), (1 << 63) - 1


class Scratch:
    """Room for rows that decoders fill again and again, and the bounds they keep.

    ``max_batch_bytes`` bounds what one batch may decompress to, all its nested sets together. ``before_large`` is
    called before one becomes large (`decompress_in_turn`), None: nobody waits.
    """

    __slots__ = ("before_large", "headers", "max_batch_bytes", "rows")

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.before_large: Callable[[], None] | None = None
        self.rows = int64s(ROWS_PER_CALL * ROW_WIDTH)
        self.headers = int64s(HEADERS_PER_CALL * HEADER_WIDTH)


class Rows:
    """``count`` records: ``rows`` and ``headers`` point into ``payload``. Valid until the decoder is asked for more.

    ``misfits`` of them, only where a decoder is told to read sizes alone, have a key or value that is not all there.
    """

    __slots__ = ("count", "headers", "misfits", "payload", "rows")

    def __init__(self, payload: Any, rows: memoryview, headers: memoryview, count: int, misfits: int = 0) -> None:
        self.payload = payload
        self.rows = rows
        self.headers = headers
        self.count = count
        self.misfits = misfits
