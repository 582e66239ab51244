"""Decoders beyond printing: JSON objects, missing keys, tombstones, secrets, malformed bytes."""

import gzip
import json
import re
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.decoders import FOR_TOPIC, decoder, name_for
from kseg.decoders.schemas import CLUSTER_METADATA, CONSUMER_OFFSETS, REMOTE_LOG_METADATA, STATUSES
from kseg.formats.control import control_object, control_text, parse_control
from kseg.formats.schema import without_unknown_tags
from segment.reading import records_at

INTERNAL = Path(__file__).parents[2] / "testdata" / "kafka-4.3.1" / "internal"
SEGMENTS = sorted(INTERNAL.glob("__*/*.log"))
SCRAM = bytes.fromhex("010b00" + "05" + b"user".hex() + "01" + "03aaaa" + "03bbbb" + "03cccc" + "00001000" + "00")
KEY = bytes.fromhex("0002000167")


def config(name: str, value: str) -> bytes:
    texts = b"".join(bytes([len(text) + 1]) + text.encode() for text in ("1", name, value))
    return b"\x01\x04\x00\x04" + texts + b"\x00"


def test_fields_of_a_newer_release_are_kept_by_tag():
    value = struct.pack(">hiq", 0, 9, 12345) + bytes.fromhex("0202040000000507020102")
    decoded = decoder("offsets").decode(b"\x00\x11\x00\x03app", value, 5)
    fields = {"epoch": 9, "metadataHash": 12345, "storedDescriptionTopologyEpoch": 5}
    assert decoded.value["data"] == {**fields, "unknownTaggedFields": [{"tag": 7, "base64": "AQI="}]}
    assert json.loads(decoded.payload_text)["data"] == fields


def test_without_a_key_the_text_is_the_exception_of_kafka_and_the_bytes_are_kept():
    decoded = decoder("transaction-log").decode(None, b"\x00\x01", 5)
    assert decoded.key_text == (
        "Failed to decode message at offset 5 using the specified decoder (message had a missing key)"
    )
    assert decoded.payload_text is None
    assert decoded.value == {"error": decoded.key_text, "base64": "AAE="}


def test_a_readable_key_is_kept_where_the_value_does_not_decode():
    decoded = decoder("offsets").decode(KEY, b"\x00\x63", 5)
    assert decoded.key_text == "Error at offset 5, skipping. Found an unknown record version 99 for 2 type"
    assert decoded.key == {"type": "2", "data": {"group": "g"}}
    assert decoded.value == {"error": decoded.key_text, "base64": "AGM="}


def test_an_unknown_type_keeps_its_bytes():
    decoded = decoder("offsets").decode(b"\x00\x63", b"\x00", 7)
    assert decoded.key_text == "Unknown record type 99 at offset 7, skipping."
    assert decoded.payload_text is None
    assert (decoded.key["base64"], decoded.value["base64"]) == ("AGM=", "AA==")


def test_secrets_are_shown_unless_redacted():
    for secret, shown in ((SCRAM, "qqo="), (config("listener.name.x.ssl.key.password", "hunter2"), "hunter2")):
        assert shown in decoder("cluster-metadata").decode(None, secret, 0).payload_text
        redacted = decoder("cluster-metadata", redact=True).decode(None, secret, 0)
        assert shown not in redacted.payload_text + json.dumps(redacted.value)
        assert "<redacted>" in redacted.payload_text
        broken = decoder("cluster-metadata", redact=True).decode(None, secret + b"!", 0)
        assert broken.value == {"error": broken.payload_text}


def test_what_is_no_secret_is_not_redacted():
    plain = config("log.cleaner.threads", "2")
    assert '"value":"2"' in decoder("cluster-metadata", redact=True).decode(None, plain, 0).payload_text


@pytest.mark.parametrize("name", FOR_TOPIC.values())
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80), prefix=st.integers(0, 30))
def test_any_bytes_give_a_text_and_an_object(name, key, value, prefix):
    for record_key in (key, key and bytes([0, prefix]) + key):
        for record_value in (value, value and bytes([0, 0]) + value, value and bytes([1, prefix, 0]) + value):
            decoded = decoder(name).decode(record_key, record_value, 3)
            assert decoded.key_text is not None or decoded.payload_text is not None
            json.dumps([decoded.key, decoded.value], allow_nan=False)


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: f"{segment.parent.name}/{segment.name}")
def test_cut_records_are_errors_or_shorter_not_exceptions(segment):
    decode = decoder(FOR_TOPIC[segment.parent.name[:-2]]).decode
    errors = 0
    for record in records_at(segment)[::7]:
        for size in range(len(record.value or b"")):
            decoded = decode(record.key, record.value[:size], record.offset)
            errors += "rror" in (decoded.key_text or "") + (decoded.payload_text or "")
    assert errors


@pytest.mark.parametrize(
    "key, value",
    [
        (b"\x00\x02\x00\x01g", b"\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (b"\x00\x07\x00\x01g\x00\x01m", b"\x00\x00\xff\xff\xff\xff\x07"),
        (b"\x00\x07\x00\x01g\x00\x01m", b"\x00\x00\x01\xff\xff\xff\xff\x07" + bytes(64)),
        (b"\x00\x07\x7f\xff", b"\x00\x00"),
    ],
    ids=["array", "compact array", "tags", "string"],
)
def test_a_claim_costs_neither_memory_nor_time(key, value):
    decode = decoder("offsets").decode
    decode(key, value, 0)
    tracemalloc.start()
    started = time.perf_counter()
    decode(key, value, 0)
    took, (_now, peak) = time.perf_counter() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert took < 1


RECORDS = Path(__file__).parents[2] / "testdata" / "internal-records" / "records.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(RECORDS.read_bytes()).decode().splitlines()]


def raw(case, name):
    return None if case[name] is None else bytes.fromhex(case[name])


def cases(name):
    found = [case for case in CASES if case["decoder"] == name]
    assert found
    return found


@pytest.mark.parametrize("name", FOR_TOPIC.values())
def test_decoders_say_what_kafka_says(name):
    decode = decoder(name).decode
    for case in cases(name):
        decoded = decode(raw(case, "key"), raw(case, "value"), 0)
        if "thrown" in case:
            assert case["thrown"] == f"java.lang.RuntimeException: {decoded.key_text}"
        else:
            assert (decoded.key_text, decoded.payload_text) == (case["keyText"], case["payloadText"]), case


def test_control_records_say_what_kafka_says():
    for case in cases("control"):
        record = parse_control(raw(case, "key"), raw(case, "value"))
        text = control_text(record)
        if "thrown" in case:
            assert text.startswith(" controlType: undecodable ("), case
            assert record.error
            assert control_object(record)["error"] == record.error
        else:
            assert text == case["payloadText"], case


def numbered(status):
    """A status of a transaction as JSON has it: its number, whose name texts print."""
    return status[1] + str(STATUSES.index(status[2]) if status[2] in STATUSES else status[2])


@pytest.mark.parametrize("name", ["offsets", "transaction-log", "share-group-state", "cluster-metadata"])
def test_objects_and_texts_agree(name):
    decode = decoder(name).decode
    compared = 0
    for case in cases(name):
        decoded = decode(raw(case, "key"), raw(case, "value"), 0)
        for text, shown in ((decoded.key_text, decoded.key), (decoded.payload_text, decoded.value)):
            if text is not None and text.startswith("{"):
                text = re.sub(r'("transactionStatus":)"([^"]+)"', numbered, text)
                assert json.loads(text) == without_unknown_tags(shown)
                compared += 1
    assert compared > 10


def test_every_type_is_among_the_cases():
    prefixes = {(case["decoder"], int(case["key"][:4], 16)) for case in cases("offsets") if len(case["key"] or "") >= 4}
    assert {("offsets", record_type) for record_type in CONSUMER_OFFSETS.values} <= prefixes
    for name, tables in (("cluster-metadata", CLUSTER_METADATA), ("remote-log-metadata", REMOTE_LOG_METADATA)):
        framed = [case["value"] for case in cases(name) if len(case["value"] or "") > 4]
        seen = {int(value[2:4], 16) for value in framed if value.startswith("01")}
        assert set(tables) <= seen


MIRRORED = {
    "mm2-offset-syncs.b.internal": (
        "00066f726465727300000003",
        "00000000000003ea0000000000000013",
        "OffsetSync{topicPartition=orders-3, upstreamOffset=1002, downstreamOffset=19}",
        {"topic": "orders", "partition": 3},
        {"upstreamOffset": 1002, "downstreamOffset": 19},
    ),
    "a.checkpoints.internal": (
        "00037061790008612e6f726465727300000001",
        "00000000000000000007000000000000000500016d",
        "Checkpoint{consumerGroupId=pay, topicPartition=a.orders-1, upstreamOffset=7, downstreamOffset=5, metadata=m}",
        {"group": "pay", "topic": "a.orders", "partition": 1},
        {"version": "0", "data": {"upstreamOffset": 7, "downstreamOffset": 5, "metadata": "m"}},
    ),
    "a.heartbeats": (
        "000161000162",
        "00000000018bcfe56800",
        "Heartbeat{sourceClusterAlias=a, targetClusterAlias=b, timestamp=1700000000000}",
        {"sourceClusterAlias": "a", "targetClusterAlias": "b"},
        {"version": "0", "data": {"timestamp": 1700000000000}},
    ),
}


@pytest.mark.parametrize("topic", MIRRORED)
def test_a_record_is_shown_as_the_formatter_of_kafka_shows_it_and_a_tombstone_keeps_its_key(topic):
    key, value, text, key_fields, fields = MIRRORED[topic]
    decode = decoder(name_for(topic)).decode
    assert decode(bytes.fromhex(key), bytes.fromhex(value), 0)[:4] == (None, text, key_fields, fields)
    tombstone = decode(bytes.fromhex(key), None, 0)
    assert (tombstone.payload_text, tombstone.key, tombstone.value) == ("<DELETE>", key_fields, None)


@pytest.mark.parametrize(("cut", "behind"), [(0, b""), (1, b""), (9, b""), (None, b"\0")])
def test_other_bytes_are_kept(cut, behind):
    key, value, *_ = MIRRORED["a.checkpoints.internal"]
    decoded = decoder("checkpoints").decode(bytes.fromhex(key), bytes.fromhex(value)[:cut] + behind, 5)
    assert decoded.key_text.startswith("Error at offset 5, skipping.")
    assert decoded.value["base64"] is not None


def test_a_users_topic_called_heartbeats_is_shown_as_without_a_decoder():
    assert name_for("heartbeats") == "heartbeats"
    assert decoder("heartbeats").decode(b"k", b'{"up":1}', 0)[:4] == ("k", '{"up":1}', "k", '{"up":1}')
    assert decoder("heartbeats").decode(None, b"\xff", 0).value == {"base64": "/w=="}


@pytest.mark.parametrize("topic", ["mm2-offset-syncs.internal", "checkpoints.internal", "orders", None])
def test_other_topics(topic):
    assert name_for(topic) is None
