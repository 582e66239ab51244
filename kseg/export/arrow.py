"""Chunks of columns as Arrow record batches, without copying."""

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kseg.errors import UnsupportedError
from kseg.export.chunk import HEADERS, KEY, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE, Bytes, Chunk
from kseg.limits import CHUNK_ROWS

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (KEY, VALUE, "topic", "partition", OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS)
"""The columns of records, in the order of Spark's Kafka source."""

Constants = dict[str, Any]
"""Values of the columns that are the same for all records of a chunk, and not part of it."""


def valid_text(name: str) -> str:
    """Returns the name of a file or topic as Unicode. Names on disk are bytes: invalid UTF-8 is shown as U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def need_pyarrow() -> None:
    """Raises UnsupportedError if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("Parquet and Arrow need pyarrow: pip install 'kseg[parquet]'") from error


def schema(names: Sequence[str], unit: str = "us") -> "pyarrow.Schema":
    """Returns the schema of these columns with the names and types of Spark's Kafka source. ``unit``: of timestamps."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        KEY: pa.binary(),
        VALUE: pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        OFFSET: pa.int64(),
        TIMESTAMP: pa.timestamp(unit, tz="UTC"),
        TIMESTAMP_TYPE: pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in names])


def record_batch(chunk: Chunk, wanted: "pyarrow.Schema", constants: Constants) -> "pyarrow.RecordBatch":
    """Returns the chunk as a record batch. The schema is `schema`'s, or differs from it in field names only.

    `Chunks` has scaled timestamps to the unit of the schema.
    """
    import pyarrow as pa

    arrays = []
    for field in wanted:
        if field.name in constants:
            arrays.append(_repeated(constants[field.name], chunk.count, field.type))
        else:
            arrays.append(_MAKERS[field.name](chunk, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _repeated(value: str | int | None, count: int, kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Returns a column of ``count`` copies of a string or an int32."""
    return _column_of(value, max(1 << (count - 1).bit_length(), CHUNK_ROWS), kind).slice(0, count)


@lru_cache(maxsize=4)
def _column_of(value: str | int | None, count: int, kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Returns the same column for all chunks of a partition. pyarrow's scalars would import pandas, if installed."""
    import pyarrow as pa

    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, int):
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(array("i", [value]) * count)])
    data = valid_text(value).encode()
    ends = array("i", range(0, len(data) * count + 1, len(data))) if data else array("i", [0]) * (count + 1)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _numbers(name: str) -> Callable[[Chunk, Any], Any]:
    def make(chunk: Chunk, kind: Any) -> Any:
        import pyarrow as pa

        valid = None if name != TIMESTAMP or chunk.valid is None else pa.py_buffer(chunk.valid)
        return pa.Array.from_buffers(kind, chunk.count, [valid, pa.py_buffer(chunk.numbers[name][: chunk.count])])

    return make


def _bytes(name: str) -> Callable[[Chunk, Any], Any]:
    return lambda chunk, kind: _binary(chunk.bytes[name], chunk.count, kind)


def _binary(column: Bytes, count: int, kind: Any) -> Any:
    import pyarrow as pa

    ends = column.ends[: count + 1]  # unused entries would be written to the file
    buffers = [pa.py_buffer(column.valid), pa.py_buffer(ends), pa.py_buffer(column.data[: ends[count]])]
    return pa.Array.from_buffers(kind, count, buffers)


def _headers(chunk: Chunk, kind: Any) -> Any:
    import pyarrow as pa

    keys, values, ends = chunk.header_keys, chunk.header_values, chunk.header_ends
    if keys is None or values is None or ends is None:
        raise KeyError(HEADERS)
    pair = kind.value_type
    key_kind, value_kind = pair.field(0).type, pair.field(1).type
    count = chunk.header_count
    found = pa.StructArray.from_arrays(
        [_texts(keys, count, key_kind), _binary(values, count, value_kind)],
        fields=[pair.field(0), pair.field(1)],
    )
    return pa.Array.from_buffers(kind, chunk.count, [None, pa.py_buffer(ends[: chunk.count + 1])], children=[found])


def _texts(keys: Bytes, count: int, kind: Any) -> Any:
    """Returns header keys as text. Kafka's clients write UTF-8; other bytes are shown as U+FFFD, as in Java."""
    import pyarrow as pa

    found = _binary(keys, count, kind)
    try:
        found.validate(full=True)  # a cast would check the same, but import all of pyarrow.compute
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in _binary(keys, count, pa.binary()).to_pylist()], kind)
    return found


_MAKERS: dict[str, Callable[[Chunk, Any], Any]] = {
    OFFSET: _numbers(OFFSET),
    TIMESTAMP: _numbers(TIMESTAMP),
    TIMESTAMP_TYPE: _numbers(TIMESTAMP_TYPE),
    KEY: _bytes(KEY),
    VALUE: _bytes(VALUE),
    HEADERS: _headers,
}
