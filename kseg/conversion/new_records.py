"""Collects single records as rows for building batches."""

from collections.abc import Sequence
from typing import NamedTuple

from kseg.formats.rows import Rows, int64s
from kseg.kernel.layout.rows import HEADER_WIDTH, ROW_WIDTH


class NewRecord(NamedTuple):
    """``timestamp`` in ms, -1 for none; ``append_time``: the same for LogAppendTime, otherwise None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    append_time: int | None = None

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        pairs = sum(len(key) + len(value or b"") for key, value in self.headers)
        return 32 + len(self.key or b"") + len(self.value or b"") + pairs


def rows_of(records: Sequence[NewRecord]) -> Rows:
    """Returns records as new rows."""
    payload = bytearray()
    rows: list[int] = []
    headers: list[int] = []

    def put(data: bytes | None) -> tuple[int, int]:
        if data is None:
            return len(payload), -1
        at = len(payload)
        payload.extend(data)
        return at, len(data)

    for record in records:
        first = len(headers) // HEADER_WIDTH
        for key, value in record.headers:
            headers += [*put(key), *put(value)]
        rows += [record.offset, record.timestamp, -1, *put(record.key), *put(record.value), first]
        rows += [len(record.headers), 0]
    return Rows(bytes(payload), _columns(rows, ROW_WIDTH), _columns(headers, HEADER_WIDTH), len(records))


def _columns(numbers: list[int], least: int) -> memoryview:
    found = int64s(max(len(numbers), least))
    for at, number in enumerate(numbers):
        found[at] = number
    return found
