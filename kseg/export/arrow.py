"""Chunks of columns as Arrow record batches, and record batches as rows for new batches of Kafka."""

import re
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from kseg.errors import UnsupportedError
from kseg.export import pa, pc
from kseg.export.chunk import (
    HEADER_ENDS,
    HEADER_KEYS,
    HEADER_VALUES,
    HEADERS,
    KEY,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
    Bytes,
    Chunk,
)
from kseg.formats.json_values import bytes_value
from kseg.formats.rows import Rows, int64s
from kseg.kernel.layout import rows as layout
from kseg.limits import CHUNK_ROWS
from kseg.segment.files import LAST_OFFSET, is_new_partition

_PLACE = "file string, topic string, partition int"
_COLUMNS = {
    "records": (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers headers"
    ),
    "counts": f"{_PLACE}, count bigint, firstOffset bigint, lastOffset bigint",
    "batches": (
        f"{_PLACE}, position bigint, size bigint, magic int, isValid boolean, baseOffset bigint, lastOffset bigint, "
        "count bigint, compression string, timestampType string, maxTimestamp bigint, producerId bigint, "
        "producerEpoch int, baseSequence int, partitionLeaderEpoch int, isTransactional boolean, isControl boolean"
    ),
    "findings": (
        f"{_PLACE}, code string, severity string, position bigint, length bigint, offset bigint, message string, "
        "details string, repair string, needs string, count bigint"
    ),
    "entries": (
        f"{_PLACE}, type string, number bigint, offset bigint, position bigint, timestamp bigint, producerId bigint, "
        "producerEpoch int, coordinatorEpoch int, firstOffset bigint, lastOffset bigint, lastStableOffset bigint, "
        "lastSequence int, offsetDelta int, currentTxnFirstOffset bigint"
    ),
    "commits": (
        "group string, topic string, partition int, offset bigint, leaderEpoch int, metadata string, "
        "commitTimestamp bigint, expireTimestamp bigint, topicId string, recordOffset bigint, logStartOffset bigint, "
        "logEndOffset bigint, lag bigint, error string"
    ),
}
"""The columns of each mode, with Spark's names of types. Those of records are Spark's Kafka source's."""


def types_of(mode: str, with_proven: bool = False) -> dict[str, str]:
    """Returns the columns of a mode, each with the name of its type. ``with_proven``: that column too."""
    found = dict(column.split() for column in _COLUMNS[mode].split(", "))
    return found | {PROVEN: "boolean"} if with_proven else found


COLUMNS = tuple(types_of("records"))
"""The columns of records."""
PROVEN = "proven"
"""The column that tells records of intact batches from those of broken ones, where both are rows."""


def valid_text(name: str) -> str:
    """Returns the name of a file or topic as Unicode. Names on disk are bytes: invalid UTF-8 is shown as U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def need_pyarrow() -> None:
    """Raises UnsupportedError if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("Parquet and Arrow need pyarrow: pip install 'kseg[parquet]'") from error


def schema(names: Sequence[str], unit: str = "us", mode: str = "records") -> "pa.Schema":
    """Returns the schema of these columns of a mode. ``unit``: of timestamps."""
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "binary": pa.binary(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(),
        "boolean": pa.bool_(), "timestamp": pa.timestamp(unit, tz="UTC"),
        "headers": pa.list_(pa.field("element", header)),
    }  # fmt: skip
    found = types_of(mode, PROVEN in names)
    return pa.schema([pa.field(name, types[found[name]]) for name in names])


def location_columns(path: str, topic: str | None, partition: int | None) -> dict[str, Any]:
    """Returns the columns that locate a row: file, topic, partition. Invalid UTF-8 is shown as U+FFFD."""
    return {"file": valid_text(path), "topic": None if topic is None else valid_text(topic), "partition": partition}


def record_batches(rows: Iterable[Mapping[str, Any]], wanted: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    """Yields rows by column name, 4096 at a time, with the columns of the schema only; missing names are null."""
    rows = iter(rows)
    while some := list(islice(rows, 4096)):
        arrays = [pa.array([row.get(field.name) for row in some], field.type) for field in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


_SPARSE = 4
"""A chunk that fills less than this part of its room is copied: its columns would hold all of that memory, for each of
many small segments."""


def record_batch(
    chunk: Chunk, wanted: "pa.Schema", constants: dict[str, Any], decoded: "Mapping[str, pa.Array] | None" = None
) -> "pa.RecordBatch":
    """Returns the chunk as a record batch, without copying unless it has few rows. ``constants``: columns that are not
    part of the chunk, each with its one value. The schema is `schema`'s, or differs from it in field names only, and in
    ``decoded`` columns (`kseg.export.decoded`).

    `Chunks` has scaled timestamps to the unit of the schema. Raises KeyError if the chunk lacks a column.
    """
    arrays = []
    for field in wanted:
        if decoded and field.name in decoded:
            arrays.append(decoded[field.name])
        elif field.name in constants:
            size = max(1 << (chunk.count - 1).bit_length(), CHUNK_ROWS)
            arrays.append(_copies(constants[field.name], size, field.type).slice(0, chunk.count))
        elif field.name == HEADERS:
            arrays.append(_headers(chunk, field.type))
        elif field.name in (KEY, VALUE):
            arrays.append(_binary(chunk.bytes[field.name], chunk.count, field.type))
        else:
            valid = None if field.name != TIMESTAMP or chunk.valid is None else pa.py_buffer(chunk.valid)
            numbers = pa.py_buffer(chunk.numbers[field.name][: chunk.count])
            arrays.append(pa.Array.from_buffers(field.type, chunk.count, [valid, numbers]))
    batch = pa.RecordBatch.from_arrays(arrays, schema=wanted)
    if chunk.count * _SPARSE < CHUNK_ROWS:
        return pa.ipc.read_record_batch(batch.serialize(), wanted)
    return batch


@lru_cache(maxsize=4)
def _copies(value: str | int | None, count: int, kind: "pa.DataType") -> "pa.Array":
    """Returns ``count`` copies of a string or an int32, the same column for all chunks of a partition.

    pyarrow's scalars would import pandas, if installed.
    """
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, bool):
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bytes([0xFF * value]) * (count // 8 + 1))])
    if isinstance(value, int):
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(array("i", [value]) * count)])
    data = valid_text(value).encode()
    ends = array("i", range(0, len(data) * count + 1, len(data))) if data else array("i", [0]) * (count + 1)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _binary(column: Bytes, count: int, kind: Any) -> Any:
    ends = column.ends[: count + 1]  # unused entries would be written to the file
    buffers = [pa.py_buffer(column.valid), pa.py_buffer(ends), pa.py_buffer(column.data[: ends[count]])]
    return pa.Array.from_buffers(kind, count, buffers)


def _headers(chunk: Chunk, kind: Any) -> Any:
    ends, count = chunk.numbers[HEADER_ENDS], chunk.entries(HEADER_KEYS)
    of_key, of_value = kind.value_type
    keys = _texts(chunk.bytes[HEADER_KEYS], count, of_key.type)
    values = _binary(chunk.bytes[HEADER_VALUES], count, of_value.type)
    found = pa.StructArray.from_arrays([keys, values], fields=[of_key, of_value])
    return pa.Array.from_buffers(kind, chunk.count, [None, pa.py_buffer(ends[: chunk.count + 1])], children=[found])


def _texts(keys: Bytes, count: int, kind: Any) -> Any:
    """Returns header keys as text. Kafka's clients write UTF-8; other bytes become ``{"base64":…}``, as in JSON Lines.

    A text that reads like that becomes it too, so that `_rows` restores all keys.
    """
    found = _binary(keys, count, kind)
    try:
        found.validate(full=True)  # a cast would check the same, but import all of pyarrow.compute
        if _ESCAPE_START not in bytes(keys.data[: keys.ends[count]]):
            return found
    except pa.ArrowInvalid:
        pass
    return pa.array([_escaped(key).decode() for key in _binary(keys, count, pa.binary()).to_pylist()], kind)


_ESCAPE_START = b'{"base64":"'
_ESCAPE = re.compile(re.escape(_ESCAPE_START) + rb'([A-Za-z0-9+/]*={0,2})"\}')


def _escaped(key: bytes) -> bytes:
    """Returns a header key as UTF-8 from which `unescaped` restores it."""
    is_text = not isinstance(bytes_value(key), dict) and unescaped(key) == key
    return key if is_text else _ESCAPE_START + b64encode(key) + b'"}'


def unescaped(text: bytes) -> bytes:
    found = _ESCAPE.fullmatch(text)
    if found is None or len(found[1]) % 4:
        return text
    key = b64decode(found[1])
    return key if _escaped(key) == text else text


TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_LOG_APPEND_TIME = TIMESTAMP_TYPES["LogAppendTime"]
DECODED = b"kseg.decoded"
"""Metadata of a column from which the bytes of keys or values cannot be restored."""
_INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__")


def record_columns(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Returns the columns of records that any table has, with types that `batchable_rows` reads.

    Texts become bytes, dictionaries their values; a timestamp is of any unit, a number of milliseconds, or a text of
    ISO 8601 with a zone, and UTC if it has no zone; a timestamp type is also the name of one. Raises ValueError, which
    names the column, for others.
    """
    found: dict[str, pa.Array] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        name = field.name
        if _INDEX_OF_PANDAS.fullmatch(name):
            continue
        if DECODED in (field.metadata or {}):
            raise ValueError(f"column {name} was decoded with schemas: its bytes are those of a table without decoding")
        if name not in COLUMNS or name in found:
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), COLUMNS, 1)
            hint = f"is {near[0]!r} meant?" if near and name not in found else f"it has {', '.join(COLUMNS)}"
            which = "two columns" if name in found else "no column"
            raise ValueError(f"a record has {which} {name!r}: {hint}")
        try:
            found[name] = _record_column(name, column)
            found[name].validate()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            kind = (
                getattr(column.type, "value_type", column.type) if pa.types.is_dictionary(column.type) else column.type
            )
            raise ValueError(f"column {name} is {kind}: {error}") from error
    return pa.RecordBatch.from_pydict(found)


def _record_column(name: str, column: "pa.Array") -> "pa.Array":
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type) or pa.types.is_date(column.type):
        raise pa.ArrowInvalid("there is no such column in records")
    is_text = str(column.type).endswith(("string", "string_view"))
    if name == TIMESTAMP:
        column = column.cast(pa.timestamp("us", "UTC")) if is_text else column
        found = _milliseconds(column) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
        return found.cast(pa.timestamp("ms", "UTC"))
    if name == TIMESTAMP_TYPE:
        numbers = pa.array(TIMESTAMP_TYPES.values(), pa.int32())
        known = pa.array(list(TIMESTAMP_TYPES), column.type) if is_text else numbers
        types = numbers.take(pc.index_in(column if is_text else column.cast(pa.int32()), known))
        if types.null_count != column.null_count:
            raise pa.ArrowInvalid("records have 0 or CreateTime, 1 or LogAppendTime, -1 or NoTimestampType")
        return types
    kinds = {
        KEY: pa.binary(), VALUE: pa.binary(), "topic": pa.string(), "partition": pa.int32(), OFFSET: pa.int64(),
        HEADERS: pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])),
    }  # fmt: skip
    return column.cast(kinds.get(name, column.type))


def by_partition(batch: "pa.RecordBatch") -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Yields the rows of each partition, by the name of its directory, in their order.

    Raises ValueError for columns ``topic`` and ``partition`` (`record_columns`) that name none.
    """
    for name in ("topic", "partition"):
        if name not in batch.schema.names:
            raise ValueError(f"there is no column {name}: a record says both topic and partition, or neither")
        if batch.column(name).null_count:
            raise ValueError(f"column {name}: a record has none")
    topics, numbers = batch.column("topic"), batch.column("partition")
    if not batch.num_rows:
        return
    if (least := pc.min(numbers).as_py()) < 0:
        raise ValueError(f"column partition: {least} is no partition number")
    if pc.all(pc.and_(pc.equal(topics, topics[0]), pc.equal(numbers, numbers[0]))).as_py():
        parts: Iterable[tuple[str, pa.RecordBatch]] = [(f"{topics[0]}-{numbers[0]}", batch)]
    else:  # several: the names of all rows take longer than all else here
        parts = by_value(batch, pc.binary_join_element_wise(topics, numbers.cast(pa.string()), "-"))
    for name, rows in parts:
        if not is_new_partition(name):
            raise ValueError(f"column topic: {name.rpartition('-')[0]!r} is no name of a topic")
        yield name, rows


def by_value(batch: "pa.RecordBatch", values: "pa.Array") -> "Iterator[tuple[Any, pa.RecordBatch]]":
    """Yields the rows of each value, null included, in their order. ``values`` has one for each row."""
    found = pc.dictionary_encode(values, null_encoding="encode")
    order = pc.sort_indices(found.indices) if len(found.dictionary) > 1 else None
    rows, first = batch if order is None else batch.take(order), 0
    counts = {each["values"]: each["counts"] for each in pc.value_counts(found.indices).to_pylist()}
    for index, value in enumerate(found.dictionary.to_pylist()):
        yield value, rows.slice(first, counts[index])
        first += counts[index]


def with_offsets(batch: "pa.RecordBatch", first: int) -> "pa.RecordBatch":
    """Returns the rows with offsets from ``first`` on, if they have none. Raises ValueError if too few are left."""
    if OFFSET in batch.schema.names:
        return batch
    if first + batch.num_rows - 1 > LAST_OFFSET:
        raise ValueError(f"there is no offset after {LAST_OFFSET}")
    return batch.append_column(OFFSET, pa.array(range(first, first + batch.num_rows), pa.int64()))


def batchable_rows(batch: "pa.RecordBatch") -> Iterator[tuple[Rows, int | None]]:
    """Yields all records of a batch with columns of `kseg.export.arrow.schema`, ``offset`` among them: those that can
    share a batch, with their LogAppendTime in ms, or None.

    Timestamps may have any unit. Raises ValueError for a null offset or header key.
    """
    if not batch.num_rows:
        return
    rows = _rows(batch)
    times = rows.rows[layout.ROW_TIMESTAMP :: layout.ROW_WIDTH].tolist()
    if TIMESTAMP_TYPE not in batch.schema.names:
        yield rows, None
        return
    kinds = batch.column(TIMESTAMP_TYPE).to_pylist()
    found = [time if kind == _LOG_APPEND_TIME else None for kind, time in zip(kinds, times, strict=True)]
    first = 0
    for stop in range(1, rows.count + 1):
        if stop == rows.count or found[stop] != found[first]:
            part = rows.rows[first * layout.ROW_WIDTH : stop * layout.ROW_WIDTH]
            yield Rows(rows.payload, part, rows.headers, stop - first), found[first]
            first = stop


def _rows(batch: "pa.RecordBatch") -> Rows:
    names, count, payload = batch.schema.names, batch.num_rows, _Payload()
    rows, headers = int64s(count * layout.ROW_WIDTH), int64s(layout.HEADER_WIDTH)
    if batch.column(OFFSET).null_count:
        raise ValueError("a record has no offset")
    rows[layout.ROW_OFFSET :: layout.ROW_WIDTH] = int64_column(batch.column(OFFSET))
    rows[layout.ROW_TIMESTAMP :: layout.ROW_WIDTH] = (
        int64_column(_milliseconds(batch.column(TIMESTAMP)), -1) if TIMESTAMP in names else _all(-1, count)
    )
    rows[layout.ROW_SEQUENCE :: layout.ROW_WIDTH] = _all(-1, count)
    for name, at, size_at in (
        (KEY, layout.ROW_KEY, layout.ROW_KEY_SIZE),
        (VALUE, layout.ROW_VALUE, layout.ROW_VALUE_SIZE),
    ):
        if name in names:
            rows[at :: layout.ROW_WIDTH], rows[size_at :: layout.ROW_WIDTH] = payload.add(batch.column(name))
        else:
            rows[size_at :: layout.ROW_WIDTH] = _all(-1, count)
    if HEADERS in names:
        lists = batch.column(HEADERS)
        starts = _boundaries(lists)
        first, last = starts[0].as_py(), starts[count].as_py()
        pairs = lists.values.slice(first, last - first)
        if len(pairs):
            if pairs.field(0).null_count or pairs.null_count:
                raise ValueError("a header has no key")
            keys = pairs.field(0).cast(pa.binary())
            if pc.any(pc.starts_with(keys, _ESCAPE_START)).as_py():  # the bytes that they were before `_texts`
                keys = pa.array([unescaped(key) for key in keys.to_pylist()], pa.binary())
            headers = int64s(len(pairs) * layout.HEADER_WIDTH)
            for column, at, size_at in (
                (keys, layout.HEADER_KEY, layout.HEADER_KEY_SIZE),
                (pairs.field(1), layout.HEADER_VALUE, layout.HEADER_VALUE_SIZE),
            ):
                headers[at :: layout.HEADER_WIDTH], headers[size_at :: layout.HEADER_WIDTH] = payload.add(column)
            rows[layout.ROW_HEADERS :: layout.ROW_WIDTH] = int64_column(pc.subtract(starts.slice(0, count), starts[0]))
            rows[layout.ROW_HEADER_COUNT :: layout.ROW_WIDTH] = int64_column(pc.list_value_length(lists), 0)
    return Rows(b"".join(payload.pieces), rows, headers, count)


class _Payload:
    """The bytes that all columns of a batch refer to: ``pieces``, one after the other."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self._size = 0

    def add(self, column: Any) -> tuple[memoryview, memoryview]:
        """Returns the position of each value of a column, and its length, -1 for null."""
        column = column.cast(pa.binary())
        starts = _boundaries(column)
        first, last = starts[0].as_py(), starts[len(column)].as_py()
        starts = starts.slice(0, len(column)).cast(pa.int64())
        positions = int64_column(pc.add(starts, pa.scalar(self._size - first, pa.int64())))
        data = column.buffers()[2]
        if data is not None:
            self.pieces.append(data.slice(first, last - first))
            self._size += last - first
        return positions, int64_column(pc.binary_length(column), -1)


def _boundaries(column: Any) -> Any:
    """Returns where the entries of a column of bytes or lists begin in its data, and where the last one ends."""
    return pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, column.buffers()[1]], offset=column.offset)


def _all(value: int, count: int) -> memoryview:
    return int64_column(pa.repeat(pa.scalar(value, pa.int64()), count))


def int64_column(column: Any, instead_of_null: int | None = None) -> memoryview:
    """Returns a column of numbers as int64 without nulls."""
    found = column.cast(pa.int64())
    if found.null_count:
        found = pc.fill_null(found, pa.scalar(instead_of_null, pa.int64()))
    return memoryview(found.buffers()[1]).cast("b").cast("q")[found.offset : found.offset + len(found)]


def _milliseconds(column: Any) -> Any:
    """Returns timestamps of any unit as int64 in milliseconds, rounded down."""
    found, unit = column.cast(pa.int64()), column.type.unit
    if unit == "s":
        found = pc.multiply_checked(found, 1000)
    elif unit != "ms":
        # Not by floor_temporal, which overflows at the earliest times.
        divisor = pa.scalar(1000 if unit == "us" else 1_000_000, pa.int64())
        whole = pc.divide(found, divisor)
        above = pc.greater(pc.multiply(whole, divisor), found)
        found = pc.subtract(whole, above.cast(pa.int64()))
    return found
