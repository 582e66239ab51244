"""Control records as JSON, and bytes that are none. tests/decoders has the texts of Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.control import ControlRecord, control_object, control_record, control_text, parse_control
from kseg.formats.record_batch import KRAFT_VERSION


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
