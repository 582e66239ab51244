"""``kseg dump`` asked for times, keys, producers, open transactions, formats and captures."""

import json
import shutil
import struct
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

MIX = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0"
MIX_LOG = MIX / "00000000000000000000.log"
TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
OPEN = TESTDATA / "kafka-1.1.1/txn/txn-open-0"
V0 = TESTDATA / "kafka-0.8.2.2/codecs/compact-0"
V07 = TESTDATA / "kafka-0.7.2/direct/codecs-0"


def records(kseg: Kseg, *arguments: object) -> list[dict]:
    return kseg("dump", "--format", "json", "--print-data-log", *arguments).of_type("record")


def test_times_are_those_in_the_range(kseg: Kseg) -> None:
    everything = records(kseg, MIX)
    stamps = sorted(record["timestamp"] for record in everything)
    low, high = stamps[50], stamps[250]
    expected = [record for record in everything if low <= record["timestamp"] <= high]
    assert records(kseg, "--time", f"{low}..{high}", MIX) == expected
    assert records(kseg, "--time", f"{low}..", MIX) == [r for r in everything if r["timestamp"] >= low]
    assert records(kseg, "--time", f"..{high}", MIX) == [r for r in everything if r["timestamp"] <= high]


def test_questions_add_up(kseg: Kseg) -> None:
    everything = records(kseg, MIX)
    key = next(record["key"] for record in everything if record["key"])
    own = [record for record in everything if record["key"] == key]
    assert 0 < len(own) < len(everything)
    assert records(kseg, "--key", key, MIX) == own
    assert records(kseg, "--key", f"hex:{key.encode().hex()}", "--offsets", f"{own[-1]['offset']}..", MIX) == own[-1:]
    assert records(kseg, "--key", key, "--limit", "1", MIX) == own[:1]
    assert records(kseg, "--key", "no such key", MIX) == []


def test_batches_that_hold_nothing_are_left_out(kseg: Kseg) -> None:
    done = kseg("dump", "--key", "no such key", MIX)
    assert (done.status, [line for line in done.lines if line.startswith("base")]) == (0, [])
    assert done.err == f"kseg: nothing found in {MIX}: no record in it matches\n"
    done = kseg("dump", "--format", "json", "--key", "no such key", MIX, TXN)
    assert (done.status, done.out) == (0, b"")
    assert done.err == f"kseg: nothing found in 2 partitions and files, such as {MIX}: no record in it matches\n"
    key = records(kseg, MIX)[0]["key"]
    assert kseg("dump", "--key", key, TXN, MIX).err == ""


def test_a_producer_with_its_markers(kseg: Kseg) -> None:
    batches = kseg("dump", "--format", "json", TXN).of_type("batch")
    (producer_id,) = {batch["producerId"] for batch in batches[:1]}
    own = [batch for batch in batches if batch["producerId"] == producer_id]
    assert any(batch["isControl"] for batch in own)
    assert kseg("dump", "--format", "json", "--producer-id", producer_id, TXN).of_type("batch") == own


@pytest.mark.parametrize("what", [["--offsets", "100000.."], ["--offsets", "100000..100001", "--deep-iteration"]])
def test_offsets_outside_are_answered_with_those_inside(what: list[str], kseg: Kseg) -> None:
    done = kseg("dump", *what, MIX)
    assert done.status == 0
    assert done.err == f"kseg: nothing found in {MIX}: the offsets in it are 0..399\n"


def test_times_outside_are_answered_with_those_inside(kseg: Kseg) -> None:
    for what in ("2020-01-01", "2030-01-01.."):
        done = kseg("dump", "--time", what, MIX)
        assert done.status == 0
        assert "2026-09-21T14:13:20.000Z..2026-09-21T14:19:14.830Z" in done.err


def test_what_has_no_timestamps_has_none_to_be_found(kseg: Kseg) -> None:
    for path in (V0, V07):
        done = kseg("dump", "--time", "2020-01-01..", path)
        assert done.status == 0
        assert "there are no times" in done.err
        assert "batches without timestamps" in done.err
        assert not any("position" in line for line in done.lines)


def test_a_gap_is_no_error(kseg: Kseg) -> None:
    compacted = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
    offsets = [record["offset"] for record in records(kseg, compacted)]
    gap = min(set(range(offsets[0], offsets[-1])) - set(offsets))
    assert records(kseg, "--offsets", gap, compacted) == []
    done = kseg("dump", "--offsets", gap, compacted)
    assert (done.status, done.err) == (0, f"kseg: nothing found in {compacted}: no record in it matches\n")


def test_verbose_tells_of_a_missing_index(kseg: Kseg, tmp_path: Path) -> None:
    shutil.copy(MIX_LOG, tmp_path)
    done = kseg("dump", "-v", "--offsets", "100", tmp_path / MIX_LOG.name)
    assert "read from its start: .index: No such file or directory" in done.err
    assert any(line.startswith("baseOffset: 81 ") for line in done.lines)


def test_open_transactions(kseg: Kseg) -> None:
    (found, *_) = objects = kseg("dump", "--open-transactions", "--format", "json", OPEN).of_type("openTransaction")
    assert (found["topic"], found["partition"]) == ("txn-open", 0)
    done = kseg("dump", "--open-transactions", "--now", found["firstTimestamp"] + 1500, OPEN)
    assert done.status == 0
    assert done.lines[0] == f"Open transactions: {OPEN}"
    assert len(done.lines) == 1 + len(objects)
    assert f"firstOffset: {found['firstOffset']} " in done.lines[1]
    assert "age: 1.500 s " in done.lines[1]
    assert kseg("dump", "--open-transactions", "--format", "table", OPEN, TXN).lines[0] == done.lines[0]
    for form in ("text", "table", "json"):
        none = kseg("dump", "--open-transactions", "--format", form, TXN)
        assert (none.status, none.out, none.err) == (0, b"", "kseg: there are no open transactions\n")
    assert kseg("dump", "--open-transactions", "--summary", OPEN).status == 2
    assert kseg("dump", "--open-transactions", V07).status == 3


def test_formats_of_keys_and_values(kseg: Kseg) -> None:
    plain = records(kseg, "--offsets", "0..20", MIX)
    shown = records(kseg, "--offsets", "0..20", "--key-format", "hex", "--value-format", "base64", MIX)
    for record, other in zip(plain, shown, strict=True):
        assert (other["key"] is None) == (record["key"] is None)
        if isinstance(record["key"], str):
            assert other["key"] == {"hex": record["key"].encode().hex()}
        assert other["value"] is None or set(other["value"]) == {"base64"}
    done = kseg("dump", "--key-decoder-class", "kafka.serializer.LongDecoder", "--offsets", "0..20", MIX)
    assert any(" key: <not a long, which has 8 bytes and not " in line or " key: " in line for line in done.lines)


def test_kafkas_own_decoder_prints_as_the_default(kseg: Kseg) -> None:
    plain = kseg("dump", "--print-data-log", MIX)
    name = "org.apache.kafka.tools.api.StringDecoder"
    assert kseg("dump", f"--key-decoder-class={name}", f"--value-decoder-class={name}", MIX).out == plain.out


def test_a_format_that_is_not_there(kseg: Kseg) -> None:
    done = kseg("dump", "--value-format", "int64", MIX)
    assert done.status == 2
    assert "int64: no format; there are auto, utf8" in done.err


def answer(data: bytes, error_code: int = 0) -> bytes:
    return struct.pack(">ih", len(data) + 2, error_code) + data


def test_a_captured_fetch_response(kseg: Kseg, tmp_path: Path) -> None:
    data = max((path.read_bytes() for path in V07.glob("*.kafka")), key=len)
    path = tmp_path / "capture.bin"
    path.write_bytes(answer(answer(data) + answer(b"", 1) + answer(MIX_LOG.read_bytes()[:-5])))
    done = kseg("dump", "--fetch-response", "--format", "json", path)
    assert done.status == 0
    assert done.err == f"kseg: {path}: position {18 + len(data)}: error code 1\n"
    log = kseg("dump", "--format", "json", MIX_LOG).of_type("batch")
    old = len(done.of_type("batch")) - len(log) + 1
    assert old > 0
    shift = 12 + len(data) + 6 + 6
    for batch, same in zip(done.of_type("batch")[old:], log, strict=False):
        assert batch == same | {"file": str(path), "position": same["position"] + shift}
    path.write_bytes(answer(data)[:-1])
    assert kseg("dump", "--fetch-response", path).status == 1


def test_a_pipe_can_be_asked_too(kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    with MIX_LOG.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        found = kseg("dump", "--format", "json", "--print-data-log", "--offsets", "100..101", "-").of_type("record")
    assert [record["offset"] for record in found] == [100, 101]
    assert json.dumps(found)


SCHEMA_IDS = TESTDATA / "kafka-4.3.1/committed/schema-ids-0"
GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_schemas_that_headers_name_are_shown(kseg: Kseg) -> None:
    shown = [record["value"] for record in records(kseg, "--value-format", "confluent", SCHEMA_IDS)]
    assert shown[:3] == [
        {"schemaGuid": GUID, "payload": '{"a":1}'},
        {"schemaGuid": GUID, "messageIndexes": [1, 2, 3], "payload": {"base64": "CJYB"}},
        {"schemaId": 10, "payload": "{}"},
    ]
    assert set(shown[3]) == {"error", "base64"}
    keys = [record["key"] for record in records(kseg, "--key-format", "auto", SCHEMA_IDS)]
    assert keys == ["k1", {"schemaId": 7, "payload": "k2"}, "k3", "k4"]
    for form in ("text", "table"):
        lines = kseg("dump", "--format", form, "--value-format", "auto", SCHEMA_IDS).lines
        assert sum(f'{{"schemaGuid":"{GUID}"' in line for line in lines) == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_format_leaves_headers_as_they_are(limit: int, kseg: Kseg) -> None:
    plain = records(kseg, "--limit", limit, SCHEMA_IDS)
    assert any(header["value"] for record in plain for header in record["headers"])
    shown = records(kseg, "--limit", limit, "--value-format", "hex", SCHEMA_IDS)
    assert [record["headers"] for record in shown] == [record["headers"] for record in plain]
