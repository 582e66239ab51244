"""Control records. Bytes and texts of the first table are from logs and dumps of real brokers (Kafka 4.3.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.control import ControlRecord, control_object, control_record, control_text, parse_control
from kseg.formats.record_batch import KRAFT_VERSION

REAL = [
    ("00000001", "000000000000", " endTxnMarker: COMMIT coordinatorEpoch: 0"),
    ("00000000", "000000000000", " endTxnMarker: ABORT coordinatorEpoch: 0"),
    (
        "00000002",
        "00000000000102000000010002000000010000",
        ' LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}',
    ),
    ("00000003", "0000000001a1fd71076f00", ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":1795253405551}'),
    ("00000004", "000000", ' SnapshotFooter {"version":0}'),
    ("00000005", "0000000100", ' KRaftVersion {"version":0,"kRaftVersion":1}'),
    (
        "00000006",
        "00000200000001a626c5fac03d47bb856a6bfc5c078fd3020b434f4e54524f4c4c45520a3132372e302e302e317975000000000100"
        "0000",
        ' KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":"pibF-sA9R7uFamv8XAeP0w","endpoints":'
        '[{"name":"CONTROLLER","host":"127.0.0.1","port":31093}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
    ),
]


@pytest.mark.parametrize("key, value, text", REAL)
def test_the_text_is_that_of_kafka(key, value, text):
    record = parse_control(bytes.fromhex(key), bytes.fromhex(value))
    assert record.error is None
    assert control_text(record) == text


def test_a_marker_as_json():
    record = parse_control(bytes.fromhex("00000001"), bytes.fromhex("000000000003"))
    assert record == ControlRecord(1, "COMMIT", {"version": 0, "coordinatorEpoch": 3}, None)
    assert control_object(record) == {"type": "COMMIT", "version": 0, "coordinatorEpoch": 3}


def test_a_snapshot_header_as_json():
    record = parse_control(bytes.fromhex("00000003"), bytes.fromhex("0000000000000000000500"))
    assert control_object(record) == {"type": "SNAPSHOT_HEADER", "version": 0, "lastContainedLogTimestamp": 5}


@pytest.mark.parametrize("type_id", [7, 9, -1, -32768])
def test_types_of_the_future_are_unknown(type_id):
    record = parse_control(b"\x00\x00" + type_id.to_bytes(2, "big", signed=True), b"")
    assert control_text(record) == f" controlType: UNKNOWN({type_id})"
    assert control_object(record) == {"type": "UNKNOWN", "typeId": type_id}


def test_a_leader_change_that_calls_itself_version_1_shows_the_directory_that_was_not_read():
    record = parse_control(bytes.fromhex("00000002"), bytes.fromhex("0001000000010200000001000100"))
    assert control_text(record) == (
        ' LeaderChange: {"version":1,"leaderId":1,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],'
        '"grantingVoters":[]}'
    )


def test_voters():
    endpoint = "02" + "0243" + "0268" + "ffff" + "00"
    value = "0000" + "02" + "00000007" + "00" * 15 + "01" + endpoint + "00000001" + "00" + "00" + "00"
    record = parse_control(bytes.fromhex("00000006"), bytes.fromhex(value))
    assert control_text(record) == (
        ' KRaftVoters {"version":0,"voters":[{"voterId":7,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ",'
        '"endpoints":[{"name":"C","host":"h","port":65535}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}'
    )


def test_higher_versions_are_read_as_zero():
    record = parse_control(bytes.fromhex("00070001"), bytes.fromhex("000900000003ffff"))
    assert record == ControlRecord(1, "COMMIT", {"version": 9, "coordinatorEpoch": 3}, None)


@pytest.mark.parametrize(
    "key, value, type_id, name, reason",
    [
        (None, b"", None, "UNKNOWN", "no key"),
        (b"\x00\x00\x00", b"", None, "UNKNOWN", "a key of 3 bytes"),
        (b"\xff\xff\x00\x01", b"\x00" * 6, None, "UNKNOWN", "key version -1"),
        (b"\x00\x00\x00\x01", None, 1, "COMMIT", "no value"),
        (b"\x00\x00\x00\x01", b"\x00" * 5, 1, "COMMIT", "ends too early"),
        (b"\x00\x00\x00\x01", b"\xff" * 6, 1, "COMMIT", "version -1"),
        (b"\x00\x00\x00\x05", b"\x00" * 4, 5, "KRAFT_VERSION", "ends too early"),
        (b"\x00\x00\x00\x02", b"\x00" * 6 + b"\xff\xff\xff\xff\x07", 2, "LEADER_CHANGE", "collection of size"),
    ],
)
def test_bytes_that_are_no_control_record(key, value, type_id, name, reason):
    record = parse_control(key, value)
    assert (record.type_id, record.name, record.fields) == (type_id, name, {})
    assert reason in record.error
    assert control_text(record) == f" controlType: undecodable ({record.error})"
    assert control_object(record)["error"] == record.error


@given(key=st.none() | st.binary(max_size=6), value=st.none() | st.binary(max_size=60), type_id=st.integers(0, 7))
def test_any_bytes_give_a_text(key, value, type_id):
    for record_key in (key, bytes([0, 0, 0, type_id])):
        record = parse_control(record_key, value)
        assert control_text(record).startswith(" ")
        assert control_object(record)["type"] == record.name


def test_a_number_that_its_field_cannot_hold_is_not_written():
    with pytest.raises(ValueError, match="format requires"):
        control_record(KRAFT_VERSION, {"kRaftVersion": 1 << 15})
