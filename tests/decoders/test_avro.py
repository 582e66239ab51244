"""Avro values: every type as JSON, references, and data and schemas of an attacker."""

import io
import json
import struct
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

import kseg
from dump.test_schemas import behind
from kseg.decoders import registry
from kseg.decoders.avro import COLUMNS, AvroError, AvroReader
from kseg.decoders.registry import Schemas, place_beside, schemas_at
from kseg.decoders.values import ValuesDecoder
from kseg.errors import KsegError, PathError
from kseg.segment.files import segment_file

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")


def encoded(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, json.loads(json.dumps(schema)), value)
    return stream.getvalue()


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(fields)]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


MS = 1790000000123
PAIRS = {"type": "map", "values": "int"}
SHOWN = [
    ("string", "Ann", "Ann"),
    ("bytes", b"ab", "ab"),
    ("bytes", b"\xff", {"base64": "/w=="}),
    ({"type": "fixed", "name": "F", "size": 2}, b"\0\xff", {"base64": "AP8="}),
    ("float", 0.1, 0.1),
    ("double", float("nan"), "NaN"),
    ("float", float("-inf"), "-Infinity"),
    ("long", -(1 << 63), -(1 << 63)),
    (["null", "string"], None, None),
    (["null", "string"], "Ann", "Ann"),
    (["null", "bytes", logical("int", "date")], b"\xff", {"base64": "/w=="}),
    (logical("int", "date"), 20717, "2026-09-21"),
    (logical("int", "date"), 1 << 30, 1 << 30),
    (logical("long", "timestamp-millis"), MS, "2026-09-21T14:13:20.123Z"),
    (logical("long", "timestamp-micros"), -1, "1969-12-31T23:59:59.999999Z"),
    (logical("long", "timestamp-nanos"), MS * 10**6 + 1, "2026-09-21T14:13:20.123000001Z"),
    (logical("long", "timestamp-millis"), 1 << 62, 1 << 62),
    (logical("long", "local-timestamp-millis"), MS, "2026-09-21T14:13:20.123"),
    (logical("int", "time-millis"), 3723004, "01:02:03.004"),
    (logical("long", "time-micros"), 86400 * 10**6, 86400 * 10**6),
    (logical("bytes", "decimal", precision=6, scale=2), b"\xfb\x32", "-12.30"),
    (logical("bytes", "decimal", precision=6, scale=9), b"\xfb\x32", {"base64": "+zI="}),
    ({**logical("fixed", "uuid"), "name": "U", "size": 16}, bytes(15) + b"\1", f"{'0' * 8}-0000-0000-0000-{1:012d}"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ({"type": "map", "values": {"type": "array", "items": "int"}}, {"k": [1, 2]}, {"k": [1, 2]}),
]


@pytest.mark.parametrize("schema, value, shown", SHOWN, ids=str)
def test_values_as_json(schema: Any, value: Any, shown: Any) -> None:
    raw = json.loads(json.dumps(schema).replace('"logicalType"', '"was"'))
    found = AvroReader(json.dumps(schema))(encoded(raw, value))
    assert found == (value if shown is None and value is not None else shown)
    json.dumps(found, allow_nan=False)


NODE = {"type": "record", "name": "a.N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def doubling(levels: int) -> dict[str, Any]:
    """Each level has two of the level before, the first one none of a byte."""
    types: list[Any] = [{"type": "record", "name": "L0", "fields": []}]
    for i in range(1, levels):
        types.append({**record(f"L{i - 1}", f"L{i - 1}"), "name": f"L{i}"})
    return record(*types)


def test_recursive_types_are_read_to_a_depth() -> None:
    read = AvroReader(json.dumps(NODE))
    assert read(b"\2\2\0") == {"next": {"next": {"next": None}}}
    for size in (1000, 1_000_000):
        with pytest.raises(AvroError, match="does not match"):
            read(b"\2" * size + b"\0")


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"
"""The largest count, and the end of an array."""


@pytest.mark.parametrize(
    "schema, data",
    [
        ({"type": "array", "items": "null"}, HUGE),
        ({"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}}, HUGE),
        ({"type": "map", "values": doubling(60)}, b"\2\0\0"),
        (doubling(60), b""),
        ({"type": "array", "items": "int"}, HUGE),
        ({"type": "array", "items": ["null", doubling(16)]}, b"\x80\x80\4" + b"\2" * 32768 + b"\0"),
        ("bytes", HUGE),
        ("string", b"\4\xff\xff"),
        ("string", b"\2a+"),
        ("int", b"\x80"),
        ("int", b""),
        (["null", "int"], b"\4"),
    ],
)
def test_data_of_an_attacker_is_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(AvroError):
        AvroReader(json.dumps(schema))(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, '{"type":' * 500 + '"int"' + "}" * 500, "{", "[]", "5", '"R"', '{"type":"record","name":"R"}',
        '{"type":"fixed","name":"F","size":-1}', '{"type":"fixed","name":"F","size":true}', '{"type":"array"}',
        '{"type":"enum","name":"E","symbols":[1]}', json.dumps(record("int") | {"name": 5}),
        json.dumps({**record(), "fields": [{"name": "a", "type": "int"}] * 2}),
        json.dumps({**record(), "fields": [{"name": "\ud800", "type": "int"}]}),
        json.dumps(record(record("int"))), json.dumps(record(*["int"] * 300_000)),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_schemas_that_cannot_be_used(text: str) -> None:
    with pytest.raises(AvroError):
        AvroReader(text)


def test_names_of_types_are_resolved_in_their_namespaces() -> None:
    address = '{"type":"record","name":"Address","namespace":"a.b","fields":[{"name":"x","type":"string"}]}'
    fields = [{"name": "p", "type": "Address"}, {"name": "q", "type": ["null", "a.b.Address"]}]
    user = json.dumps({"type": "record", "name": "a.b.User", "fields": fields})
    assert AvroReader(user, [address])(b"\2x\2\2y") == {"p": {"x": "x"}, "q": {"x": "y"}}
    with pytest.raises(AvroError, match="'Address', which is not defined"):
        AvroReader(user)


def test_columns_keep_numbers_and_bytes() -> None:
    read = AvroReader(json.dumps(record("bytes", logical("long", "timestamp-millis"), PAIRS)), (), COLUMNS)
    data = encoded(record("bytes", "long", PAIRS), {"f0": b"\xff", "f1": MS, "f2": {"a": 1}})
    assert read(data) == {"f0": b"\xff", "f1": MS, "f2": [("a", 1)]}


# The registry


def registered(number: int, schema: Any, subject: str = "s", version: int = 1, **more: Any) -> tuple[bytes, bytes]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    value = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False, **more}
    return json.dumps(key).encode(), json.dumps(value).encode()


@pytest.fixture
def schemas_of(tmp_path: Path) -> Callable[..., Schemas]:
    """Writes records to _schemas and reads them; warnings are collected in `warnings`."""

    def read(*records: tuple[bytes | None, bytes | None]) -> Schemas:
        with kseg.writer(str(tmp_path / "_schemas-0")) as writer:
            for key, value in records:
                writer.append(key=key, value=value)
        return schemas_at(str(tmp_path), warnings.append)

    warnings: list[str] = []
    read.warnings = warnings  # type: ignore[attr-defined]
    return read


def shown(schemas: Schemas, value: bytes, *headers: tuple[bytes, bytes]) -> Any:
    return ValuesDecoder("avro", "avro", schemas).decode(None, value, 0, headers)


def test_values_behind_ids(schemas_of: Any) -> None:
    schemas = schemas_of(
        (b'{"keytype":"NOOP","magic":0}', b""),
        registered(1, "string"),
        registered(2, "{}", schemaType="JSON"),
        registered(3, "message M {}", schemaType="PROTOBUF"),
        registered(4, '"int"', version=2, deleted=True),
        (json.loads(json.dumps(registered(4, '"int"', version=2)[0].decode())).encode(), None),
        registered(5, "{"),
        registered(-6, '"int"', version="x"),
        registered(10, '"int"', "u", version=10**4000),
        registered(11, "null", "n"),
    )
    found = shown(schemas, behind(1, b"\6Ann"))
    assert (found.payload_text, found.value) == ('"Ann"', "Ann")
    assert found.marks == {"valueFormat": "avro", "valueSchema": 1}
    assert shown(schemas, behind(2, b'{"a":1}')).value == {"a": 1}
    assert shown(schemas, behind(3, b"\4\2\4\x08\1")).value == {
        "schemaId": 3, "messageIndexes": [1, 2], "payload": "\x08\1",
    }  # fmt: skip
    assert shown(schemas, behind(3, b"\0\x08")).value["messageIndexes"] == [0]
    assert shown(schemas, behind(11, b"")).marks == {"valueFormat": "avro", "valueSchema": 11}
    assert shown(schemas, behind(4, b"\2")).value == 1, "a deleted schema stays readable"
    for as_it_is in (
        b"no avro",
        behind(1, b"\6An"),
        behind(2, b"{"),
        behind(5, b"\2"),
        behind(6, b""),
        behind(10, b"\2"),
        b"\0\0",
        b"",
    ):
        found = shown(schemas, as_it_is)
        assert (found.value, found.marks) == (as_it_is.decode(), None)
    place, *warned = schemas_of.warnings
    assert "schema 5 cannot be used: the schema is no JSON" in place
    assert "has no schema 6" in ", ".join(warned)


def test_guids_in_headers(schemas_of: Any) -> None:
    """The MD5 of the text and the references, or the GUID that the registry has written."""
    guid = "89791762-2336-4186-9674-299b90a802e2"
    schemas = schemas_of(registered(1, '"string"'), registered(2, '"int"', "t", guid=guid))
    header = b"\1" + md5(b'"string"', usedforsecurity=False).digest()
    assert shown(schemas, b"\6Ann", (b"__value_schema_id", header)).value == "Ann"
    header = b"\1" + bytes.fromhex(guid.replace("-", ""))
    assert shown(schemas, b"\6", (b"__value_schema_id", header)).value == 3
    assert shown(schemas, b"\6Ann", (b"__value_schema_id", b"\1" + bytes(16))).value == "\6Ann"


def test_references_and_versions(schemas_of: Any) -> None:
    def use(subject: str, version: int = 1) -> dict[str, Any]:
        return {"name": subject, "subject": subject, "version": version}

    kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
    address = {"type": "record", "name": "Address", "fields": [{"name": "kind", "type": "Kind"}]}
    user = {
        "type": "record",
        "name": "User",
        "fields": [{"name": "a", "type": "Address"}, {"name": "k", "type": "Kind"}],
    }
    schemas = schemas_of(
        registered(1, kind, "kind"),
        registered(2, address, "address", references=[use("kind")]),
        registered(3, user, "user", references=[use("address"), use("kind")]),
        registered(4, "string", "user", 2),
        registered(5, address, "loop", references=[use("loop")]),
        registered(6, address, "missing", references=[use("kind", 9)]),
    )
    assert shown(schemas, behind(3, b"\0\0")).value == {"a": {"kind": "A"}, "k": "A"}
    assert shown(schemas, behind(4, b"\2x")).value == "x"
    data = json.dumps(address).encode() + b"kindkind" + struct.pack(">i", 1)
    header = b"\1" + md5(data, usedforsecurity=False).digest()
    assert shown(schemas, b"\0", (b"__value_schema_id", header)).value == {"kind": "A"}
    assert shown(schemas, behind(5, b"\0")).marks is None
    assert shown(schemas, behind(6, b"\0")).marks is None
    assert "uses version 9 of kind, which is missing" in schemas_of.warnings[-1]


def test_schemas_in_use_are_bounded(schemas_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MAX_PARTS", 3)
    schemas = schemas_of(*(registered(number, ["null", "int"]) for number in (1, 2)))
    assert [shown(schemas, behind(number, b"\0")).marks is None for number in (1, 2, 1)] == [False, True, False]
    assert "schema 2 cannot be used: those before it take up" in schemas_of.warnings[-1]


@pytest.mark.parametrize("first", [record("int"), {"type": "array", "items": "null"}], ids=["used", "refused"])
def test_no_schema_is_compiled_at_the_bound(first: Any, schemas_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MAX_PARTS", 1)
    schemas = schemas_of(registered(1, first), registered(2, "{"))
    for number in (1, 2):
        shown(schemas, behind(number, b"\0"))
    assert "schema 2 cannot be used: those before it take up" in schemas_of.warnings[-1]


def test_schemas_that_are_read_are_bounded(schemas_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "_MAX_BYTES", 500)
    schemas_of(*(registered(1, "string") for _ in range(9)))
    for name, records in {
        "versions": [registered(1, "string", version=version) for version in range(9)],
        "ids of one version": [registered(number, f'"{number}"') for number in range(9)],
        "GUIDs": [registered(1, "string", guid=f"{number}") for number in range(9)],
        "references": [registered(1, "{}", references=[{"name": "x" * 500, "subject": "s", "version": 1}])],
    }.items():
        (tmp_path / "_schemas-0").rename(tmp_path / f"before {name}")
        with pytest.raises(KsegError, match="MiB of schemas"):
            schemas_of(*records)


def test_the_default_context_wins(schemas_of: Any) -> None:
    schemas = schemas_of(
        registered(1, "string", ":.eu:s"), registered(1, "int"), registered(1, "long", ":.eu:t"),
        registered(2, "int", ":.eu:u"),
    )  # fmt: skip
    assert shown(schemas, behind(1, b"\2")).value == shown(schemas, behind(2, b"\2")).value == 1


def test_a_damaged_topic_of_schemas(tmp_path: Path, schemas_of: Any) -> None:
    schemas_of(registered(1, "string"))
    (segment,) = (tmp_path / "_schemas-0").glob("*.log")
    intact = segment.read_bytes()
    segment.write_bytes(intact + intact[:-1] + b"\xff" + b"nonsense")
    assert shown(schemas_at(str(tmp_path), schemas_of.warnings.append), behind(1, b"\2x")).value == "x"
    assert "is damaged: schemas may be missing" in schemas_of.warnings[-1]


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"string"')
    (tmp_path / "8.json").write_text("{}")
    (tmp_path / "notes.avsc").write_text("?")
    schemas = schemas_at(str(tmp_path), pytest.fail)
    assert shown(schemas, behind(7, b"\2x")).value == "x"
    assert shown(schemas, behind(8, b"[1]")).value == [1]
    for path in ("", tmp_path / "nothing", tmp_path / "7.avsc", tmp_path / "notes.avsc"):
        with pytest.raises(PathError):
            schemas_at(str(path), pytest.fail)


def test_the_topic_beside_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders-0").mkdir()
    monkeypatch.chdir(tmp_path / "orders-0")
    assert place_beside(segment_file("00000000000000000000.log")) is None
    (tmp_path / "_schemas-0").mkdir()
    assert place_beside(segment_file("00000000000000000000.log")) == str(tmp_path / "_schemas-0")
    assert place_beside(segment_file("-")) is None
