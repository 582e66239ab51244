"""Decoders of a dump: that of each topic, and formats of keys and values."""

import shutil
from pathlib import Path

import pytest

from cli.command import DECODERS, TESTDATA, Kseg
from dump.asked import MIX, records

INTERNAL = TESTDATA / "kafka-4.3.1/internal"
TIERED = TESTDATA / "kafka-4.3.1/tiered"
COMMITTED = TESTDATA / "kafka-4.3.1/committed"
PARTITIONS = [path for path in [*sorted(INTERNAL.glob("__*-*")), *sorted(TIERED.glob("__*-*"))] if path.is_dir()]
FORMS = ["text", "json", "table"]


def flag(partition: Path) -> list[str]:
    decoder = DECODERS.get(partition.name.rpartition("-")[0])
    return [decoder] if decoder else []


def test_there_is_one_of_each_topic() -> None:
    assert {decoder for path in PARTITIONS for decoder in flag(path)} == set(DECODERS.values())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("partition", PARTITIONS, ids=[f"{path.parent.name}/{path.name}" for path in PARTITIONS])
def test_the_topic_of_a_file_chooses_its_decoder(partition: Path, form: str, kseg: Kseg) -> None:
    auto = kseg("dump", "--decode", "auto", "--format", form, partition)
    assert auto == kseg("dump", *flag(partition), "--format", form, partition)
    assert auto.status == 0


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("flags", [[], ["--deep-iteration"], ["--print-data-log"], ["--value-format", "hex"]], ids=str)
def test_a_log_directory_is_decoded_where_it_is_internal(form: str, flags: list[str], kseg: Kseg) -> None:
    partitions = sorted(path for path in COMMITTED.iterdir() if path.name != "truth" and path.is_dir())
    alone = [kseg("dump", *flags, *flag(path), "--format", form, path).out for path in partitions]
    done = kseg("dump", *flags, "--decode", "auto", "--format", form, COMMITTED)
    assert (done.status, done.err) == (0, "")
    assert done.out == b"".join(alone)
    assert [path.name for path in partitions if flag(path)] == ["__consumer_offsets-0", "__consumer_offsets-1"]


def test_each_path_is_judged_by_itself(kseg: Kseg, tmp_path: Path) -> None:
    metadata, offsets = INTERNAL / "__cluster_metadata-0", INTERNAL / "__consumer_offsets-1"
    moved = Path(shutil.copytree(offsets, tmp_path / f"{offsets.name}.{'0123456789abcdef' * 2}-delete"))
    alone = tmp_path / "copy.log"
    shutil.copy(next(offsets.glob("*.log")), alone)
    done = kseg("dump", "--decode", "auto", metadata, moved, alone, COMMITTED / "orders-0")
    assert done.out == b"".join(
        [
            kseg("dump", "--decode", "cluster-metadata", metadata).out,
            kseg("dump", "--offsets-decoder", moved).out,
            kseg("dump", alone).out,
            kseg("dump", COMMITTED / "orders-0").out,
        ]
    )


def test_a_snapshot_is_one_wherever_it_lies(kseg: Kseg, tmp_path: Path) -> None:
    snapshot = tmp_path / "bootstrap.checkpoint"
    shutil.copy(next((INTERNAL / "__cluster_metadata-0").glob("*.checkpoint")), snapshot)
    done = kseg("dump", "--decode", "auto", snapshot)
    assert done.out == kseg("dump", "--cluster-metadata-decoder", snapshot).out
    assert b'"FEATURE_LEVEL_RECORD"' in done.out


def test_secrets_are_hidden_on_request(kseg: Kseg) -> None:
    partition = INTERNAL / "__cluster_metadata-0"
    assert b"<redacted>" not in kseg("dump", "--decode", "auto", partition).out
    done = kseg("dump", "--decode", "auto", "--redact", partition)
    assert done.out == kseg("dump", "--cluster-metadata-decoder", "--redact", partition).out
    assert b"<redacted>" in done.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_threads_decode_each_file_by_its_topic(form: str, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kseg("dump", "--decode", "auto", "--format", form, "--jobs", "1", COMMITTED, INTERNAL)
    monkeypatch.setattr("kseg.output.printer.SERIAL_BYTES", 0)
    assert kseg("dump", "--decode", "auto", "--format", form, "--jobs", "3", COMMITTED, INTERNAL) == expected


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
