"""Converts Arrow record batches to rows, of which Kafka's batches are built, without a Python object per record."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.export.chunk import HEADERS, KEY, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE
from kseg.formats.rows import Rows, int64s
from kseg.kernel.layout.rows import (
    HEADER_KEY,
    HEADER_KEY_SIZE,
    HEADER_VALUE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_SEQUENCE,
    ROW_TIMESTAMP,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
)

if TYPE_CHECKING:
    import pyarrow

_LOG_APPEND_TIME = 1


class BatchableRows(NamedTuple):
    """Records that can share a batch. ``append_time``: their LogAppendTime in ms, or None."""

    rows: Rows
    append_time: int | None


def batchable_rows(batch: "pyarrow.RecordBatch") -> Iterator[BatchableRows]:
    """Yields all records of a batch with columns of `kseg.export.arrow.schema`, ``offset`` among them.

    Raises ValueError for a null offset or header key, and for a timestamp that does not fit into microseconds.
    """
    if not batch.num_rows:
        return
    rows = _rows(batch)
    times = rows.rows[ROW_TIMESTAMP::ROW_WIDTH].tolist()
    if TIMESTAMP_TYPE not in batch.schema.names:
        yield BatchableRows(rows, None)
        return
    kinds = batch.column(TIMESTAMP_TYPE).to_pylist()
    found = [time if kind == _LOG_APPEND_TIME else None for kind, time in zip(kinds, times, strict=True)]
    first = 0
    for stop in range(1, rows.count + 1):
        if stop == rows.count or found[stop] != found[first]:
            part = rows.rows[first * ROW_WIDTH : stop * ROW_WIDTH]
            yield BatchableRows(Rows(rows.payload, part, rows.headers, stop - first), found[first])
            first = stop


def _rows(batch: "pyarrow.RecordBatch") -> Rows:
    import pyarrow.compute as pc

    names, count, payload = batch.schema.names, batch.num_rows, _Payload()
    rows, headers = int64s(count * ROW_WIDTH), int64s(HEADER_WIDTH)
    if batch.column(OFFSET).null_count:
        raise ValueError("a record has no offset")
    rows[ROW_OFFSET::ROW_WIDTH] = _numbers(batch.column(OFFSET))
    rows[ROW_TIMESTAMP::ROW_WIDTH] = _milliseconds(batch.column(TIMESTAMP)) if TIMESTAMP in names else _all(-1, count)
    rows[ROW_SEQUENCE::ROW_WIDTH] = _all(-1, count)
    for name, at, size_at in ((KEY, ROW_KEY, ROW_KEY_SIZE), (VALUE, ROW_VALUE, ROW_VALUE_SIZE)):
        if name in names:
            rows[at::ROW_WIDTH], rows[size_at::ROW_WIDTH] = payload.add(batch.column(name))
        else:
            rows[size_at::ROW_WIDTH] = _all(-1, count)
    if HEADERS in names:
        lists = batch.column(HEADERS)
        starts = _boundaries(lists)
        first, last = starts[0].as_py(), starts[count].as_py()
        pairs = lists.values.slice(first, last - first)
        if len(pairs):
            if pairs.field(0).null_count or pairs.null_count:
                raise ValueError("a header has no key")
            headers = int64s(len(pairs) * HEADER_WIDTH)
            for field, at, size_at in ((0, HEADER_KEY, HEADER_KEY_SIZE), (1, HEADER_VALUE, HEADER_VALUE_SIZE)):
                headers[at::HEADER_WIDTH], headers[size_at::HEADER_WIDTH] = payload.add(pairs.field(field))
            rows[ROW_HEADERS::ROW_WIDTH] = _numbers(pc.subtract(starts.slice(0, count), starts[0]))
            rows[ROW_HEADER_COUNT::ROW_WIDTH] = _numbers(pc.list_value_length(lists), 0)
    return Rows(payload.joined(), rows, headers, count)


class _Payload:
    """The bytes that all columns of a batch refer to."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._size = 0

    def add(self, column: Any) -> tuple[memoryview, memoryview]:
        """Returns the position of each value of a column, and its length, -1 for null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = column.cast(pa.binary())
        starts = _boundaries(column)
        first, last = starts[0].as_py(), starts[len(column)].as_py()
        starts = starts.slice(0, len(column)).cast(pa.int64())
        positions = _numbers(pc.add(starts, pa.scalar(self._size - first, pa.int64())))
        data = column.buffers()[2]
        if data is not None:
            self._pieces.append(data.slice(first, last - first))
            self._size += last - first
        return positions, _numbers(pc.binary_length(column), -1)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def _boundaries(column: Any) -> Any:
    """Returns where the entries of a column of bytes or lists begin in its data, and where the last one ends."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, column.buffers()[1]], offset=column.offset)


def _all(value: int, count: int) -> memoryview:
    import pyarrow as pa

    return _numbers(pa.repeat(pa.scalar(value, pa.int64()), count))


def _numbers(column: Any, instead_of_null: int | None = None) -> memoryview:
    """Returns a column of numbers as int64 without nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = column.cast(pa.int64())
    if found.null_count:
        found = pc.fill_null(found, pa.scalar(instead_of_null, pa.int64()))
    return memoryview(found.buffers()[1]).cast("b").cast("q")[found.offset : found.offset + len(found)]


def _milliseconds(column: Any) -> memoryview:
    """Returns timestamps in microseconds as milliseconds, rounded down; -1 for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    whole = pc.divide(micros, 1000)
    above = pc.greater(pc.multiply(whole, 1000), micros)
    return _numbers(pc.subtract(whole, above.cast(pa.int64())), -1)
