"""All record types and versions, valid and damaged, compared with Kafka's output (testdata/internal-records)."""

import gzip
import json
import re
from pathlib import Path

import pytest

from kseg.decoders import FOR_TOPIC, decoder
from kseg.decoders.schemas.coordinators import CONSUMER_OFFSETS, STATUSES
from kseg.decoders.schemas.metadata import CLUSTER_METADATA, REMOTE_LOG_METADATA
from kseg.formats.control import control_object, control_text, parse_control
from kseg.formats.schema import without_unknown_tags

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
