"""Decoded columns: typed by an Avro schema where all values have the same one, else JSON text."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import kseg as package
from cli.command import Kseg
from dump.test_schemas import ORDER, behind, register

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytest.importorskip("fastavro", reason="fastavro is not installed")


WIDE: list[tuple[Any, bytes, Any, Any]] = [
    ("boolean", b"\1", "bool", True),
    ("int", b"\2", "int32", 1),
    ("long", b"\2", "int64", 1),
    ("float", b"\0\0\0\x3f", "float", 0.5),
    ("double", bytes(6) + b"\xf8\x7f", "double", None),
    ("bytes", b"\2\xff", "binary", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", "fixed_size_binary[2]", b"ab"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\0", "string", "A"),
    (["null", "string"], b"\0", "string", None),
    ({"type": "int", "logicalType": "date"}, b"\2", "date32[day]", date(1970, 1, 2)),
    (
        {"type": "long", "logicalType": "timestamp-millis"}, b"\2", "timestamp[ms, tz=UTC]",
        datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
    ),
    ({"type": "long", "logicalType": "local-timestamp-nanos"}, b"\0", "timestamp[ns]", None),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\2\x64", "decimal128(4, 2)",
        Decimal("1.00"),
    ),
    ({"type": "array", "items": "long"}, b"\2\2\0", "list<element: int64>", [1]),
    ({"type": "map", "values": "long"}, b"\2\2a\2\0", "map<string, int64>", [("a", 1)]),
]  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_types_of_columns(form: str, tmp_path: Path, kseg: Kseg) -> None:
    fields = [{"name": f"f{i}", "type": each[0]} for i, each in enumerate(WIDE)]
    with package.writer(str(tmp_path / "_schemas-0")) as writer:
        register(writer, 1, json.dumps({"type": "record", "name": "R", "fields": fields}))
    with package.writer(str(tmp_path / "wide-0")) as writer:
        writer.append(value=behind(1, b"".join(each[1] for each in WIDE)), timestamp=1)
        writer.append(value=None, timestamp=1)
    out = tmp_path / "out"
    kseg("convert", "--to", form, "--value-format", "avro", "-o", out, tmp_path / "wide-0").expect(0)
    table = pq.read_table(out) if form == "parquet" else pa.ipc.open_file(out).read_all()
    kind = table.schema.field("value").type
    assert [re.sub(r" \('f.*'\)", "", str(kind.field(i).type)) for i in range(kind.num_fields)] == [
        each[2] for each in WIDE
    ]
    first, second = table["value"].to_pylist()
    assert second is None
    for i, (_, _, _, value) in enumerate(WIDE):
        assert value is None or first[f"f{i}"] == value
    kseg("convert", "--from", form, "-o", tmp_path / "back", out).expect(3, "column value was decoded with schemas")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    recursive = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    levels: list[Any] = [{"name": "f0", "type": "int"}]
    for i in range(1, 40):
        inner = {"type": "record", "name": f"L{i}", "fields": levels}
        levels = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", f"L{i}"]}]
    schemas = [ORDER, {**ORDER, "doc": "the same"}, "string", recursive, ["int", "string"]]
    with package.writer(str(tmp_path / "_schemas-0")) as writer:
        empty = {"type": "record", "name": "Empty", "fields": []}
        for number, schema in enumerate([*schemas, empty, {"type": "record", "name": "Wide", "fields": levels}]):
            register(writer, number, json.dumps(schema))
        register(writer, 9, "{}", schemaType="JSON")
        register(writer, 10, "{")
    return tmp_path


ANN, TEXT = behind(0, b"\2\6Ann"), '{"id":1,"who":"Ann"}'


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "values, found",
    [
        ([ANN, None, ANN], [{"id": 1, "who": "Ann"}, None, {"id": 1, "who": "Ann"}]),
        ([ANN, behind(1, ANN[5:])], [{"id": 1, "who": "Ann"}] * 2),
        ([ANN, b"plain", b"\xff", None], [TEXT, '"plain"', '{"base64":"/w=="}', None]),
        ([ANN, behind(2, b"\6Bob")], [TEXT, '"Bob"']),
        ([ANN, ANN + b"more"], [TEXT, json.dumps((ANN + b"more").decode())]),
        ([behind(2, b"\6Bob")], ["Bob"]),
        ([behind(3, b"\2\0")], ['{"n":{"n":null}}']),
        ([behind(4, b"\0\2")], ["1"]),
        ([behind(5, b"")], ["{}"]),
        ([behind(6, b"\2" + bytes(39))], ['{"a":' * 39 + '{"f0":1}' + ',"b":null}' * 39]),
        ([behind(9, b'{"a": 1}'), None], ['{"a":1}', None]),
        ([None], [None]),
    ],
    ids=lambda each: repr(each)[:30],
)
def test_types_of_schemas(values: list[bytes | None], found: list[Any], logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    with package.writer(str(logs / "orders-0")) as writer:
        for value in values:
            writer.append(key=value, value=value, timestamp=1)
    out = tmp_path / "out.parquet"
    flags = ["--key-format", "avro", "--value-format", "avro"]
    kseg("convert", "--to", "parquet", *flags, "-o", out, logs / "orders-0").expect(0)
    table = pq.read_table(out)
    assert table["key"].to_pylist() == table["value"].to_pylist() == found


def test_csv_and_lines(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    with package.writer(str(logs / "orders-0")) as writer:
        writer.append(key=b"k", value=ANN, timestamp=1)
        writer.append(key=b"k", value=b"plain", timestamp=1)
    asked = ["convert", "--value-format", "avro", logs / "orders-0", "--to"]
    assert [line.split('"k",')[1] for line in kseg(*asked, "csv").expect(0).lines[1:]] == [
        '"{""id"":1,""who"":""Ann""}","[]"', '"""plain""","[]"'
    ]  # fmt: skip
    rows = kseg(*asked, "jsonl").expect(0).objects
    assert [(row["value"], row.get("valueSchema")) for row in rows[1:]] == [
        ({"id": 1, "who": "Ann"}, 0),
        ("plain", None),
    ]
    for flags in (["--to", "v2"], ["--codec", "zstd"]):
        kseg("convert", "--value-format", "avro", *flags, "-o", tmp_path / "new", logs / "orders-0").expect(
            2, "is for --to jsonl"
        )
    kseg("convert", "--schemas", logs, "--to", "csv", logs / "orders-0").expect(2, "--schemas is for")
    with package.writer(str(logs / "more-0")) as writer:
        writer.append(key=behind(10, b""), value=behind(99, b""), timestamp=1)
    flags = ["--key-format", "avro", "--value-format", "avro", "-o", tmp_path / "out"]
    told = kseg("convert", "--to", "arrow", *flags, logs / "more-0").expect(0).err
    assert (told.count("has no schema 99"), told.count("schema 10 cannot be used")) == (1, 1)
    (logs / "_schemas-0").rename(logs / "elsewhere")
    kseg(*asked, "csv").expect(3, "no _schemas-0 in its log directory")
    assert kseg(*asked, "csv", "--schemas", logs / "elsewhere").expect(0).out
