"""Records of MirrorMaker 2, serialized and printed by the classes of connect-mirror 4.3.1."""

import pytest

from kseg.decoders import decoder, name_for

RECORDS = {
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


@pytest.mark.parametrize("topic", RECORDS)
def test_a_record_is_shown_as_the_formatter_of_kafka_shows_it(topic):
    key, value, text, key_fields, fields = RECORDS[topic]
    decoded = decoder(name_for(topic)).decode(bytes.fromhex(key), bytes.fromhex(value), 0)
    assert decoded == (None, text, key_fields, fields)


@pytest.mark.parametrize("topic", RECORDS)
def test_a_tombstone_keeps_its_key(topic):
    key, _, _, key_fields, _ = RECORDS[topic]
    decoded = decoder(name_for(topic)).decode(bytes.fromhex(key), None, 0)
    assert (decoded.payload_text, decoded.key, decoded.value) == ("<DELETE>", key_fields, None)


@pytest.mark.parametrize("cut", [0, 1, 9])
def test_other_bytes_are_kept(cut):
    key, value, *_ = RECORDS["a.checkpoints.internal"]
    decoded = decoder("checkpoints").decode(bytes.fromhex(key), bytes.fromhex(value)[:cut], 5)
    assert decoded.key_text.startswith("Error at offset 5, skipping.")
    assert decoded.value["base64"] is not None


def test_a_users_topic_called_heartbeats_is_shown_as_without_a_decoder():
    assert name_for("heartbeats") == "heartbeats"
    assert decoder("heartbeats").decode(b"k", b'{"up":1}', 0) == ("k", '{"up":1}', "k", '{"up":1}')
    assert decoder("heartbeats").decode(None, b"\xff", 0).value == {"base64": "/w=="}


@pytest.mark.parametrize("topic", ["mm2-offset-syncs.internal", "checkpoints.internal", "orders", None])
def test_other_topics(topic):
    assert name_for(topic) is None
