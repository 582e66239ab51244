"""Rows of records, the common result of all format decoders (`kseg.kernel.layout.rows` documents the columns), and
types of the bytes that they refer to."""

import mmap
from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias, overload

from kseg.kernel.layout.rows import (
    HEADER_WIDTH,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
)
from kseg.kernel.records.columns import WANTED_EARLIEST, WANTED_FIRST, WANTED_LAST, WANTED_LATEST, WANTED_WIDTH
from kseg.limits import HEADERS_PER_CALL, MAX_BATCH_BYTES, ROWS_PER_CALL

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""Bytes in memory: a batch, a record, a small file."""


class Sliceable(Protocol):
    """Bytes in memory or in a file that is read slice by slice (`kseg.stores.source.FileBytes`)."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> BytesLike: ...


class UndecodableError(Exception):
    """Raised at the first unreadable record of a batch; ``problem`` is a problem code."""

    def __init__(self, message: str, problem: str = "undecodable-records") -> None:
        super().__init__(message)
        self.problem = problem


def int64s(count: int) -> memoryview:
    """Allocates zeroed int64 columns for the kernel."""
    return memoryview(bytearray(8 * count)).cast("q")


def sparse_int64s(count: int) -> memoryview:
    """Allocates zeroed int64 columns of which only pages that are written take memory and time."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(mmap.mmap(-1, 8 * count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)).cast("q")
    return memoryview(mmap.mmap(-1, 8 * count)).cast("q")


ALL = int64s(WANTED_WIDTH)
"""The ``wanted`` argument of `kseg.kernel.records.columns` that selects every record."""
ALL[WANTED_FIRST] = ALL[WANTED_EARLIEST] = -(1 << 63)
ALL[WANTED_LAST] = ALL[WANTED_LATEST] = (1 << 63) - 1


class Scratch:
    """Reused buffers for rows, and the limits of decoders.

    ``max_batch_bytes`` limits the decompressed size of one batch, including all nested sets. ``before_large`` is called
    before a batch becomes large (`decompress_limited`); None: no callback.
    """

    __slots__ = ("before_large", "headers", "max_batch_bytes", "rows")

    def __init__(self, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.before_large: Callable[[], None] | None = None
        self.rows = int64s(ROWS_PER_CALL * ROW_WIDTH)
        self.headers = int64s(HEADERS_PER_CALL * HEADER_WIDTH)


class Rows:
    """``count`` records: ``rows`` and ``headers`` refer to ``payload``. Valid until the decoder's next result.

    ``misfits`` is the number of records with a truncated key or value; only a decoder that reads sizes alone has any.
    """

    __slots__ = ("count", "headers", "misfits", "payload", "rows")

    def __init__(self, payload: Sliceable, rows: memoryview, headers: memoryview, count: int, misfits: int = 0) -> None:
        self.payload = payload
        self.rows = rows
        self.headers = headers
        self.count = count
        self.misfits = misfits

    def column(self, number: int) -> list[int]:
        """Returns a column ROW_* of all records."""
        return self.rows[number : self.count * ROW_WIDTH : ROW_WIDTH].tolist()

    def part(self, first: int, stop: int) -> "Rows":
        """Returns the records ``first`` to ``stop``."""
        return Rows(self.payload, self.rows[first * ROW_WIDTH : stop * ROW_WIDTH], self.headers, stop - first)

    def entries(self, first: int = 0, stop: int | None = None) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Yields offset, key and value of the records ``first`` to ``stop``; a null one is None."""
        columns, payload = self.rows, self.payload
        for at in range(first * ROW_WIDTH, (self.count if stop is None else stop) * ROW_WIDTH, ROW_WIDTH):
            key, key_size = columns[at + ROW_KEY], columns[at + ROW_KEY_SIZE]
            value, value_size = columns[at + ROW_VALUE], columns[at + ROW_VALUE_SIZE]
            yield (
                columns[at + ROW_OFFSET],
                bytes(payload[key : key + key_size]) if key_size >= 0 else None,
                bytes(payload[value : value + value_size]) if value_size >= 0 else None,
            )
