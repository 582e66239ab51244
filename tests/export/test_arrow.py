"""Chunks as Arrow record batches: every buffer is as Arrow's own validation wants it, and the values are the rows'."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from export.chunk_rows import read_chunks, read_rows
from kernel.rendering import batch, record
from kseg.export.chunk import NAMES
from kseg.kernel.layout.rows import ROW_TIMESTAMP, ROW_WIDTH

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
SOURCES = [
    "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log",
    "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log",
    "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log",
]
pytestmark = pytest.mark.spark  # whose extra brings pyarrow
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tables(path: Path, names: tuple[str, ...] = NAMES, **sizes: int) -> list["pa.RecordBatch"]:
    from kseg.export.arrow import record_batch, schema

    wanted = schema([*names, "topic", "partition"])
    constants = {"topic": "orders", "partition": None}
    chunks = read_chunks(path, names=names, timestamp_scale=1000, **sizes)
    found = [record_batch(chunk, wanted, constants) for chunk in chunks]
    for each in found:
        each.validate(full=True)
        assert each.schema.equals(wanted)
    return found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rows", [7, 5000])
def test_values_are_those_of_the_rows(source: str, rows: int) -> None:
    found = [row for table in tables(TESTDATA / source, rows=rows) for row in table.to_pylist()]
    expected = [
        {
            "key": key,
            "value": value,
            "offset": offset,
            "timestamp": None if time is None else EPOCH + timedelta(milliseconds=time),
            "timestampType": kind,
            "headers": [{"key": name.decode(), "value": content} for name, content in headers],
            "topic": "orders",
            "partition": None,
        }
        for offset, time, kind, key, value, headers in read_rows(TESTDATA / source)
    ]
    assert found == expected


def test_one_column_alone() -> None:
    (table,) = tables(TESTDATA / SOURCES[0], ("offset",))
    assert table.schema.names == ["offset", "topic", "partition"]
    assert table.column("offset").to_pylist() == list(range(240))


HOSTILE_KEYS = [b"a\xff\xc3b", "é".encode(), b'{"base64":"/w=="}', b'{"base64":"YQ=="}', b'{"base64":"/"}', b""]


def test_header_keys_that_are_no_text_are_restored(tmp_path: Path) -> None:
    """Also texts that read as if they stood for bytes."""
    from kseg.export.arrow import batchable_rows

    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([record(0, headers=[(key, b"\xff") for key in HOSTILE_KEYS]), record(1)]))
    (table,) = tables(path)
    shown = ['{"base64":"Yf/DYg=="}', "é", '{"base64":"eyJiYXNlNjQiOiIvdz09In0="}', '{"base64":"YQ=="}',
             '{"base64":"/"}', ""]  # fmt: skip
    assert [[pair["key"] for pair in row] for row in table.column("headers").to_pylist()] == [shown, []]
    ((rows, _),) = batchable_rows(table)
    keys = [bytes(rows.payload[at : at + size]) for at, size, *_ in batched(rows.headers.tolist(), 4)]
    assert keys == HOSTILE_KEYS


def batched(numbers: list[int], width: int) -> list[list[int]]:
    return [numbers[first : first + width] for first in range(0, len(numbers), width)]


def test_rows_of_a_table_without_times_have_none() -> None:
    from kseg.export.arrow import batchable_rows

    ((rows, _),) = batchable_rows(pa.record_batch({"offset": pa.array([4, 5], pa.int64())}))
    assert rows.rows[ROW_TIMESTAMP::ROW_WIDTH].tolist() == [-1, -1]


UTC_MS = 1_700_000_000_123
FOREIGN = [
    ("key", pa.array(["a", None]).dictionary_encode(), [b"a", None]),
    ("value", pa.array(["é", None], pa.large_string()), ["é".encode(), None]),
    ("value", pa.nulls(2), [None, None]),
    ("key", pa.array([b"abc", None], pa.binary(3)), [b"abc", None]),
    ("offset", pa.array([5.0, 6.0]), [5, 6]),
    ("partition", pa.array(["1", "2"]), [1, 2]),
    ("timestampType", pa.array(["LogAppendTime", None]), [1, None]),
    ("headers", pa.array([[("h", "1"), ("h", None)], None], pa.map_(pa.string(), pa.string())),
     [[{"key": b"h", "value": b"1"}, {"key": b"h", "value": None}], None]),
    ("headers", pa.array([[{"value": b"1", "key": "h"}], []],
                         pa.large_list(pa.struct([("value", pa.binary()), ("key", pa.string())]))),
     [[{"key": b"h", "value": b"1"}], []]),
]  # fmt: skip


@pytest.mark.parametrize("name, column, wanted", FOREIGN, ids=lambda given: str(getattr(given, "type", "")))
def test_columns_of_other_tables(name: str, column: "pa.Array", wanted: list[object]) -> None:
    from kseg.export.arrow import record_columns

    if pa.types.is_large_list(column.type) and int(pa.__version__.partition(".")[0]) < 21:
        with pytest.raises(ValueError, match="wrong order"):
            record_columns(pa.record_batch({name: column}))
        return
    assert record_columns(pa.record_batch({name: column})).column(name).to_pylist() == wanted


@pytest.mark.parametrize("kind, of_ms, rounded", [
    (pa.timestamp("s", "Asia/Tokyo"), lambda ms: ms // 1000, 1_700_000_000_000),
    (pa.timestamp("ms"), lambda ms: ms, UTC_MS),
    (pa.timestamp("us", "-05:00"), lambda ms: 1000 * ms + 999, UTC_MS),
    (pa.timestamp("ns", "UTC"), lambda ms: 10**6 * ms + 1, UTC_MS),
    (pa.int64(), lambda ms: ms, UTC_MS),
    (pa.string(), lambda ms: "2023-11-14T23:13:20.123+01:00", UTC_MS),
], ids=lambda given: "" if callable(given) else str(given))  # fmt: skip
def test_times_of_other_tables(kind: "pa.DataType", of_ms: Callable[[int], Any], rounded: int) -> None:
    from kseg.export.arrow import batchable_rows, record_columns, with_offsets
    from kseg.kernel.layout.rows import ROW_TIMESTAMP, ROW_WIDTH

    given = pa.record_batch({"timestamp": pa.array([of_ms(UTC_MS), None]).cast(kind)})
    ((rows, _),) = batchable_rows(with_offsets(record_columns(given), 0))
    assert rows.rows[ROW_TIMESTAMP::ROW_WIDTH].tolist() == [rounded, -1]


@pytest.mark.parametrize("unit, divisor", [("us", 1000), ("ns", 10**6)])
def test_the_earliest_times_are_rounded_down(unit: str, divisor: int) -> None:
    from kseg.export.arrow import record_columns

    given = [-(2**63), -(2**63) + 1, -1]
    times = pa.array(given, pa.int64()).cast(pa.timestamp(unit))
    found = record_columns(pa.record_batch({"timestamp": times})).column("timestamp")
    assert found.cast(pa.int64()).to_pylist() == [time // divisor for time in given]


@pytest.mark.parametrize("columns, told", [
    ({"Key": ["a"]}, "is 'key' meant?"),
    ({"payload": ["a"]}, "no column 'payload'"),
    ({"key": [1]}, "column key is int64"),
    ({"value": [{"a": 1}]}, "column value is struct"),
    ({"offset": [1.5]}, "column offset is double"),
    ({"offset": [True]}, "column offset is bool"),
    ({"timestamp": [date(2026, 1, 1)]}, "column timestamp is date32"),
    ({"timestamp": ["2026-01-01 10:00"]}, "column timestamp is string"),
    ({"timestampType": ["createTime"]}, "column timestampType is string"),
    ({"timestampType": [2]}, "column timestampType is int64"),
    ({"headers": ["a"]}, "column headers is string"),
], ids=str)  # fmt: skip
def test_columns_without_a_clear_meaning_are_named(columns: dict[str, list[Any]], told: str) -> None:
    from kseg.export.arrow import record_columns

    with pytest.raises(ValueError, match=re.escape(told)):
        record_columns(pa.record_batch(columns))


def test_rows_by_partition() -> None:
    from kseg.export.arrow import by_partition

    rows = pa.record_batch({"topic": list("babba"), "partition": pa.array([1, 0, 1, 2, 0], pa.int32()), "n": range(5)})
    found = [(name, part.column("n").to_pylist()) for name, part in by_partition(rows)]
    assert found == [("b-1", [0, 2]), ("a-0", [1, 4]), ("b-2", [3])]
    for topic, partition, told in (("a/b", 0, "topic"), (None, 0, "topic"), ("a", -1, "partition"), ("", 0, "topic")):
        given = pa.record_batch({"topic": [topic], "partition": pa.array([partition], pa.int32())})
        with pytest.raises(ValueError, match=f"column {told}"):
            list(by_partition(given))


def test_few_rows_keep_no_memory_of_their_chunk() -> None:
    """Each of many small segments has a chunk with room for thousands of rows."""
    from kseg.export.arrow import record_batch, schema

    (chunk, *_) = read_chunks(TESTDATA / SOURCES[0], names=NAMES, timestamp_scale=1000, rows=7)
    found = record_batch(chunk, schema([*NAMES, "topic", "partition"]), {"topic": "orders", "partition": None})
    before = found.to_pylist()
    chunk.numbers["offset"][0] = 999_999
    memoryview(chunk.bytes["value"].data)[:1] = b"\xff"
    assert found.to_pylist() == before
