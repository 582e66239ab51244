"""``kseg dump`` against what Kafka says about the same segments: its dump tool, its consumers, 0.7's own iterators."""

import gc
import re
import weakref
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from cli.command import CONSUMED, TESTDATA, Kseg, Truth, consumed_record, ids, json_lines, our_record, raw, truths
from kseg.dump.options import DumpOptions
from kseg.dump.run import Dump
from kseg.spark.dump import TextSink

TRUTHS = truths()
BATCH_FIELDS = ["type", "file", "position", "size", "magic", "baseOffset", "lastOffset", "count", "compression"]
V2_FIELDS = [
    "baseSequence", "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch", "isTransactional",
    "isControl", "deleteHorizonMs", "timestampType", "baseTimestamp", "maxTimestamp",
]  # fmt: skip
END_FIELDS = ["crc", "isValid", "problems"]
RECORD_FIELDS = ["type", "file", "position", "topic", "partition", "offset", "keySize", "valueSize", "key", "value"]


def test_the_truth_is_there() -> None:
    assert len(TRUTHS) > 140
    assert {truth.variant for truth in TRUTHS} == {"", "shallow", "skip", "decoded"}
    assert sum(truth.died for truth in TRUTHS) > 20
    assert len(CONSUMED) > 30


def test_a_run_is_freed_without_the_garbage_collector() -> None:
    """Its buffers take megabytes, and tasks of Spark make a run for each part of a segment."""
    gc.disable()
    try:
        for form in ("text", "json"):
            run = Dump(TextSink(False), DumpOptions(paths=(), form=form, jobs=1, quiet=True))
            alive = weakref.ref(run)
            del run
            assert alive() is None
    finally:
        gc.enable()


def as_we_judge(text: bytes) -> bytes:
    """Kafka's text with what the manual names as a departure: a batch of an unknown magic is not valid."""
    return re.sub(rb"(magic: (?![012] )-?[0-9]+ .*isvalid: )true$", rb"\1false", text, flags=re.MULTILINE)


@pytest.mark.parametrize("truth", TRUTHS, ids=[str(truth.path.relative_to(TESTDATA)) for truth in TRUTHS])
def test_text_is_that_of_kafkas_tool(truth: Truth, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the first damage that it stops or stumbles at; a segment that is whole has none."""
    monkeypatch.chdir(truth.folder)
    done = kseg("dump", *truth.flags, truth.segment)
    expected = as_we_judge(truth.text)
    before, damage, _ = done.out.partition(b"| damage: ")
    if damage or truth.died:
        assert truth.folder.parent.name == "damaged"
        assert done.status == 1
        common = min(len(before), len(expected))
        assert before[:common] == expected[:common]
        assert before[:common].count(b"\n") >= 3
    else:
        assert done.out == expected


@pytest.mark.parametrize("consumed", CONSUMED, ids=ids(CONSUMED))
def test_json_records_are_those_a_consumer_got(consumed: Path, kseg: Kseg) -> None:
    partition = consumed.parent.parent.parent / consumed.parent.name
    done = kseg("dump", "--format", "json", "--print-data-log", partition)
    expected = [consumed_record(record) for record in json_lines(consumed)]
    found = [our_record(record) for record in done.of_type("record") if "control" not in record]
    assert expected
    assert [record for record in found if record[0] >= expected[0][0]] == expected


def shallow_07(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("offset", "next_offset", "position", "magic", "crc", "valid"))


ENTRIES_07 = sorted(TESTDATA.glob("kafka-0.*/**/*.kafka.shallow.jsonl.gz"))


@pytest.mark.parametrize("entries", ENTRIES_07, ids=ids(ENTRIES_07))
def test_json_of_07_is_what_its_own_iterators_saw(entries: Path, kseg: Kseg) -> None:
    segment = entries.parent.parent.parent / entries.parent.name / entries.name.removesuffix(".shallow.jsonl.gz")
    batches = kseg("dump", "--format", "json", segment).of_type("batch")
    assert [
        tuple(batch[name] for name in ("baseOffset", "nextOffset", "position", "magic", "crc", "isValid"))
        for batch in batches
    ] == [shallow_07(entry) for entry in json_lines(entries) if "offset" in entry]
    assert {tuple(batch) for batch in batches} == {
        ("type", "file", "position", "size", "magic", "baseOffset", "nextOffset", "compression", *END_FIELDS)
    }
    records = kseg("dump", "--format", "json", "--print-data-log", segment).of_type("record")
    messages = json_lines(entries.with_name(entries.name.replace("shallow", "deep")))
    assert [(record["nextOffset"], record["isValid"], raw(record["value"])) for record in records] == [
        (message["next_offset"], message["valid"], b64decode(message["payload_b64"]))
        for message in messages
        if "payload_b64" in message
    ]


FIELDS = {
    "kafka-0.8.2.2/codecs/one-gzip-0": (
        [*BATCH_FIELDS, *END_FIELDS],
        [*RECORD_FIELDS],
    ),
    "kafka-0.10.2.2/codecs/tsedge-0": (
        [*BATCH_FIELDS, "timestampType", "maxTimestamp", *END_FIELDS],
        [*RECORD_FIELDS, "timestamp", "timestampType"],
    ),
    "kafka-4.3.1/codecs/codec-mix-0": (
        [*BATCH_FIELDS, *V2_FIELDS, *END_FIELDS],
        [*RECORD_FIELDS, "timestamp", "timestampType", "sequence", "headers"],
    ),
}


@pytest.mark.parametrize("partition", FIELDS)
def test_json_has_the_fields_of_its_format(partition: str, kseg: Kseg) -> None:
    batch_fields, record_fields = FIELDS[partition]
    done = kseg("dump", "--format", "json", "--print-data-log", TESTDATA / partition)
    batches, records = done.of_type("batch"), done.of_type("record")
    assert {frozenset(batch) for batch in batches} == {frozenset(batch_fields)}
    assert {frozenset(record) for record in records if "control" not in record} == {frozenset(record_fields)}
    assert len(done.objects) == len(batches) + len(records)
    shallow = kseg("dump", "--format", "json", TESTDATA / partition)
    assert {frozenset(batch) for batch in shallow.objects} == {frozenset(batch_fields)}
    sizes = kseg("dump", "--format", "json", "--deep-iteration", TESTDATA / partition).of_type("record")
    without = frozenset(record_fields) - {"key", "value"}
    assert {frozenset(record) for record in sizes if "control" not in record} == {without}
    assert all("value" not in header for record in sizes for header in record.get("headers", []))


def test_json_of_control_records(kseg: Kseg) -> None:
    partition = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
    done = kseg("dump", "--format", "json", "--print-data-log", partition)
    controls = [record["control"] for record in done.of_type("record") if "control" in record]
    assert {control["type"] for control in controls} == {"COMMIT", "ABORT"}
    assert len(controls) == sum(batch["isControl"] for batch in done.of_type("batch"))


def test_json_of_damage(kseg: Kseg) -> None:
    folder = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
    done = kseg("dump", "--format", "json", folder)
    assert done.status == 1
    (damage,) = done.of_type("damage")
    assert damage.pop("message")
    assert damage == {
        "type": "damage", "code": "bad-length", "file": str(folder / "00000000000000000116.log"), "position": 7129,
        "length": 305,
    }  # fmt: skip


DAMAGED = sorted(path for path in TESTDATA.glob("damaged/*/*-[0-9]*/*") if path.suffix in (".log", ".kafka"))


@pytest.mark.parametrize("segment", DAMAGED, ids=ids(DAMAGED))
def test_json_accounts_for_every_byte(segment: Path, kseg: Kseg) -> None:
    items = kseg("dump", "--format", "json", "--deep-iteration", segment).objects
    at = 0
    for item in items:
        if item["type"] != "record":
            assert item["position"] == at
            at += item["size" if item["type"] == "batch" else "length"]
    assert at == segment.stat().st_size


@pytest.mark.parametrize("flags", [[], ["--deep-iteration"]], ids=["shallow", "deep"])
@pytest.mark.parametrize("segment", DAMAGED, ids=ids(DAMAGED))
def test_both_forms_end_with_the_same_status(segment: Path, flags: list[str], kseg: Kseg) -> None:
    done = kseg("dump", "--format", "json", *flags, segment)
    has_errors = any(item["type"] == "damage" or item.get("problems") for item in done.objects)
    assert (kseg("dump", *flags, segment).status, done.status) == (has_errors, has_errors)
