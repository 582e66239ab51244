"""Names keep their length, their partition and what they join; the records of internal topics still decode."""

import gzip
import json
import re
import tracemalloc
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.decoders import FOR_TOPIC, decoder
from kseg.decoders.schemas import TRANSACTION_STATE
from kseg.formats.control import parse_control
from kseg.redaction.internal_records import CoordinatorRule, SchemasRule, of_control, rule_for
from kseg.redaction.pseudonyms import Pseudonyms
from kseg.sidefiles.hash_order import coordinator_partition, string_hash
from verification.partitions import TESTDATA

NAMES = Pseudonyms()
TOPICS = {name: topic for topic, name in FOR_TOPIC.items()}


@cache
def records() -> list[dict[str, Any]]:
    with gzip.open(TESTDATA / "internal-records/records.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def numbers_of(value: Any) -> Any:
    """A decoded message without its texts."""
    if isinstance(value, dict):
        return {name: numbers_of(each) for name, each in value.items() if name != "error"}
    if isinstance(value, list):
        return [numbers_of(each) for each in value]
    return "" if isinstance(value, str) else value


@pytest.mark.parametrize("name", sorted(TOPICS))
def test_records_of_internal_topics_decode_as_before(name: str) -> None:
    rule, decode, decoded = rule_for(TOPICS[name], ".log", NAMES), decoder(name).decode, 0
    assert rule is not None
    for record in (each for each in records() if each["decoder"] == name):
        old = [None if each is None else bytes.fromhex(each) for each in (record["key"], record["value"])]
        new = rule(*old)
        fresh = rule_for(TOPICS[name], ".log", NAMES)
        assert fresh is not None
        assert rule(*old) == new == fresh(*old)
        assert [each and len(each) for each in new] == [each and len(each) for each in old]
        before, after = decode(*old, 0), decode(*new, 0)
        if "rror" not in f"{before.key_text}{before.payload_text}" and before.payload_text is not None:
            decoded += 1
            assert numbers_of(after.value) == numbers_of(before.value)
            assert numbers_of(after.key) == numbers_of(before.key)
    assert decoded > 9


def test_messages_of_one_length_may_have_other_texts() -> None:
    """Once a form of messages is known, lengths alone tell whether another one has it."""
    message, names = TRANSACTION_STATE.values[0], Pseudonyms(with_topics=True)
    rule = CoordinatorRule(TRANSACTION_STATE, names)
    key = bytes(2) + TRANSACTION_STATE.keys[0].write({"transactionalId": "payments"}, 0)

    def told(version: int, first: str, second: str, time: int) -> tuple[bytes, bytes]:
        partitions = [{"topic": topic, "partitionIds": [1]} for topic in (first, second)]
        fields = {"transactionPartitions": partitions, "transactionLastUpdateTimestampMs": time}
        return key, version.to_bytes(2, "big") + message.write(fields, version)

    for version in (0, 1):
        for time in (1, 2):
            for first, second in (("ab", "cdefgh"), ("abcdef", "gh"), ("ab", "cdefgh")):
                _, new = rule(*told(version, first, second, time))
                topics = [names.topic(each.encode()).decode() for each in (first, second)]
                assert new == told(version, *topics, time)[1]


def test_hosts_of_voters_are_replaced() -> None:
    seen = 0
    for record in (each for each in records() if each["decoder"] == "control" and each["value"]):
        key, value = (None if record[part] is None else bytes.fromhex(record[part]) for part in ("key", "value"))
        _, new = of_control(NAMES, key, value)
        before, after = parse_control(key, value), parse_control(key, new)
        assert numbers_of(after.fields) == numbers_of(before.fields)
        seen += new != value
    assert seen


@given(st.binary(min_size=1, max_size=40))
def test_a_name_keeps_its_length_and_a_group_its_partition(name: bytes) -> None:
    assert len(NAMES.name(name)) == len(NAMES.principal(name)) == len(NAMES.host(name)) == len(name)
    assert re.fullmatch(rb"[a-z][a-z0-9]*", NAMES.name(name))


@given(st.text("abcxyzABC-._0123456789", min_size=9, max_size=60))
def test_a_group_keeps_its_hash(group: str) -> None:
    found = NAMES.identity(group.encode())
    assert found == NAMES.identity(group.encode()) != group.encode()
    assert string_hash(found.decode()) == string_hash(group)


def test_a_group_that_is_too_short_for_its_hash_keeps_its_partition() -> None:
    for number in range(100):
        group = f"team{number:03}"  # of a negative hash
        found = NAMES.identity(group.encode()).decode()
        assert coordinator_partition(found, 50) == coordinator_partition(group, 50)


def test_short_names_stay_different() -> None:
    names = Pseudonyms()
    found = {names.name(f"{number:03}".encode()) for number in range(1000)}
    assert len(found) == 1000
    assert names.principal(b"User:ann")[:5] == b"User:"
    assert (names.principal(b"User:*"), names.host(b"*"), names.host(b"/10.0.0.1")[:1]) == (b"User:*", b"*", b"/")


@pytest.mark.parametrize("size", [1, 2])
def test_short_payloads_are_permuted(size: int) -> None:
    found = {NAMES.payload(number.to_bytes(size, "big")) for number in range(256**size)}
    assert len(found) == 256**size


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_payloads_keep_lengths_and_differences(one: bytes, other: bytes) -> None:
    a, b = NAMES.payload(one), NAMES.payload(other)
    assert (len(a), len(b)) == (len(one), len(other))
    assert (a == b) == (one == other)
    assert Pseudonyms().payload(b"a longer text") != Pseudonyms().payload(b"a longer text")


def test_schemas_keep_their_language_and_lose_their_words() -> None:
    rule = SchemasRule(NAMES, frozenset((b"orders",)))
    schema = json.dumps({"type": "record", "name": "Customer", "fields": [{"name": "birthday", "type": "string"}]})
    value = {"subject": "orders-value", "version": 3, "id": 7, "schema": schema, "deleted": False}
    key = {"keytype": "SCHEMA", "subject": "people-value", "version": 3, "magic": 1}
    found = [json.loads(each or b"") for each in rule(json.dumps(key).encode(), json.dumps(value).encode())]
    assert found[0]["keytype"] == "SCHEMA"
    assert found[1]["subject"] == "orders-value"
    assert re.fullmatch("[a-z][a-z0-9]{5}-value", found[0]["subject"])
    assert found[0]["subject"] != "people-value"
    inner = json.loads(found[1]["schema"])
    assert (inner["type"], inner["fields"][0]["type"]) == ("record", "string")
    assert not re.search("Customer|birthday", found[1]["schema"])
    assert [value[name] == found[1][name] for name in ("version", "id", "deleted")] == [True] * 3


@pytest.mark.slow
def test_large_keys_and_values_are_not_remembered() -> None:
    """The names of a group may be as long as a record: memory does not grow with them."""
    rule = rule_for("__consumer_offsets", ".log", Pseudonyms())
    assert rule is not None
    tracemalloc.start()
    try:
        for number in range(60):
            group = f"{number:08000d}".encode()
            key = b"\0\1" + len(group).to_bytes(2, "big") + group + b"\0\1t" + bytes(4)
            new_key, _ = rule(key, None)
            assert new_key is not None
            assert len(new_key) == len(key)
            assert new_key != key
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()
