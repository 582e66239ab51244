"""A dump of values behind the ids of a Schema Registry: where schemas are found, filters, and what comes back."""

import json
import struct
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import kseg as package
from cli.command import Kseg

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}


def behind(number: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">i", number) + payload


def register(writer: Any, number: int, schema: str, **more: Any) -> None:
    subject = {"subject": f"s{number}", "version": 1}
    value = {**subject, "id": number, "schema": schema, **more}
    writer.append(key=json.dumps({"keytype": "SCHEMA", **subject}).encode(), value=json.dumps(value).encode())


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with schemas, and a topic of JSON and Avro values behind their ids, and others."""
    pytest.importorskip("fastavro", reason="fastavro is not installed")
    with package.writer(str(tmp_path / "_schemas-0")) as writer:
        register(writer, 7, json.dumps(ORDER))
        register(writer, 8, '"string"')
    with package.writer(str(tmp_path / "orders-0")) as writer:
        writer.append(key=behind(8, b"\6Ann"), value=behind(7, b"\2\6Ann"), timestamp=1)
        writer.append(key=behind(8, b"\6Bob"), value=behind(7, b"\4\6Bob"), timestamp=1)
        writer.append(key=b"Bob", value=b"plain", timestamp=1)
        writer.append(key=None, value=None, timestamp=1)
    return tmp_path


def records(kseg: Kseg, *arguments: Any) -> list[dict[str, Any]]:
    rows = kseg("dump", "--format", "json", "--print-data-log", *arguments).expect(0).objects
    return [row for row in rows if row["type"] == "record"]


BOTH = ["--key-format", "avro", "--value-format", "avro"]
VALUES = [{"id": 1, "who": "Ann"}, {"id": 2, "who": "Bob"}, "plain", None]


@pytest.mark.parametrize("flags", [BOTH, ["--decode", "auto"], [*BOTH, "--jobs", "1"], ["--decode", "auto", *BOTH]])
def test_schemas_beside_a_partition(flags: list[str], logs: Path, kseg: Kseg) -> None:
    found = records(kseg, *flags, logs / "orders-0")
    assert [row["value"] for row in found] == VALUES
    assert [row["key"] for row in found] == ["Ann", "Bob", "Bob", None]
    assert [row.get("valueSchema") for row in found] == [7, 7, None, None]
    assert [row.get("keyFormat") for row in found] == ["avro", "avro", None, None]


def test_schemas_from_elsewhere(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    moved = logs.with_name(logs.name + "-moved")
    (logs / "orders-0").rename(moved)
    schemas, folder = logs / "_schemas-0", logs / "files"
    folder.mkdir()
    (folder / "7.avsc").write_text(json.dumps(ORDER))
    for place in (schemas, logs, folder, next(schemas.glob("*.log"))):
        found = records(kseg, "--value-format", "avro", "--schemas", place, moved)
        assert [row["value"] for row in found] == VALUES
        assert [row["key"] for row in found][2:] == ["Bob", None], "keys stay as they are"
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(logs, "logs")
        archive.add(moved, "logs/orders-0")
    assert [row["value"] for row in records(kseg, *BOTH, tmp_path / "logs.tar")][-4:] == VALUES


def test_text_and_table(logs: Path, kseg: Kseg) -> None:
    text = kseg("dump", *BOTH, "--skip-record-metadata", logs / "orders-0").expect(0).lines
    assert text[-4:-1] == [
        '| key: "Ann" payload: {"id":1,"who":"Ann"}', '| key: "Bob" payload: {"id":2,"who":"Bob"}',
        "| key: Bob payload: plain",
    ]  # fmt: skip
    table = kseg("dump", *BOTH, "--format", "table", logs / "orders-0").expect(0).out.decode()
    assert '"Bob": {"id":2,"who":"Bob"}' in table
    assert b"payload" not in kseg("dump", "--decode", "auto", logs / "orders-0").expect(0).out


@pytest.mark.parametrize(
    "flags, offsets",
    [
        (["--grep-any", '"who":"Bob"'], [1]),
        (["--grep", '"who":"Bob"'], [1]), (["--grep", "plain"], [2]), (["--key", "Bob"], [1, 2]),
        (["--key", '"Bob"'], [1]), (["--key-pattern", "^A"], [0]), (["--last", "1", "--key", "Bob"], [2]),
        (["--last", "1", "--grep", '"id":'], [1]), (["--key", "Bob", "--grep", "pl"], [2]), (["--grep", "null"], []),
    ],
    ids=str,
)  # fmt: skip
def test_filters_match_the_decoded_form(flags: list[str], offsets: list[int], logs: Path, kseg: Kseg) -> None:
    assert [row["offset"] for row in records(kseg, *BOTH, *flags, logs / "orders-0")] == offsets


def test_what_is_missing_is_named(logs: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "_schemas-0").rename(logs / "elsewhere")
    kseg("dump", *BOTH, logs / "orders-0").expect(3, "there is no _schemas-0 in its log directory: give --schemas")
    kseg("dump", "--decode", "auto", "--print-data-log", logs / "orders-0").expect(0)
    kseg("dump", "--schemas", logs, logs / "orders-0").expect(2, "--schemas is for")
    kseg("dump", *BOTH, "--schemas", logs / "nothing", logs / "orders-0").expect(
        3, "nothing: neither a partition with schemas"
    )
    (logs / "elsewhere").rename(logs / "_schemas-0")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    kseg("dump", *BOTH, logs / "orders-0").expect(3, "pip install 'kseg[avro]'")
    kseg("dump", "--decode", "auto", "--print-data-log", logs / "orders-0").expect(0, "pip install 'kseg[avro]'")
    assert not kseg("dump", "--decode", "auto", logs / "orders-0").expect(0).err, "schemas are not read for nothing"


def test_schemas_that_are_not_used_are_not_needed(logs: Path, kseg: Kseg) -> None:
    (logs / "_schemas-0").rename(logs / "elsewhere")
    (index,) = (logs / "orders-0").glob("*.index")
    for flags in (["--hex"], ["--offsets-decoder", "--format", "json"]):
        kseg("dump", *BOTH, *flags, logs / "orders-0").expect(0)
        kseg("dump", *BOTH, *flags, "--schemas", logs, logs / "orders-0").expect(2, "--schemas is for")
    kseg("dump", *BOTH, "--verify-index-only", index).expect(0)
    kseg("dump", *BOTH, "--hex", "--key", "Bob", logs / "orders-0").expect(3, "give --schemas")
    kseg("dump", *BOTH, "--schemas", "", logs / "orders-0").expect(2, "is empty")


def test_decoded_lines_do_not_come_back(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    """The text of an Avro string would be taken for the bytes of the record."""
    lines = tmp_path / "lines.jsonl"
    for flags in (["--key-format", "avro"], ["--value-format", "avro"], ["--value-format", "string"]):
        lines.write_bytes(kseg("dump", "--format", "json", "--print-data-log", *flags, logs / "orders-0").out)
        kseg("convert", "--from", "jsonl", "-o", tmp_path / "new", lines).expect(3, f"was decoded as {flags[1]}")
    lines.write_text('{"key":"a","value":"b","keyFormat":null,"valueFormat":"avro"}')
    kseg("convert", "--from", "jsonl", "-o", tmp_path / "new", lines).expect(3, "was decoded as avro")
    lines.write_bytes(kseg("dump", "--format", "json", "--print-data-log", logs / "orders-0").out)
    kseg("convert", "--from", "jsonl", "-o", tmp_path / "new", lines).expect(0)
