"""The table notation, wire format and JSON of Kafka's messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.encoding import uvarint
from kseg.decoders import schemas
from kseg.formats import java_text
from kseg.formats.schema import MessageError, MessageSchema, Wire, json_text, parse_table, uuid_text

ALL_TABLES = (
    schemas.CONSUMER_OFFSETS.keys,
    schemas.CONSUMER_OFFSETS.values,
    schemas.TRANSACTION_STATE.keys,
    schemas.TRANSACTION_STATE.values,
    schemas.SHARE_GROUP_STATE.keys,
    schemas.SHARE_GROUP_STATE.values,
    schemas.REMOTE_LOG_METADATA,
    schemas.CLUSTER_METADATA,
)


def test_a_table():
    name, tagged, nested = parse_table("name:str?, epoch:i32(v2+ tag3 =-1), parts:[]{id:i32, racks:[]str}")
    assert (name.kind, name.is_nullable, name.default) == ("str", True, None)
    assert (tagged.since, tagged.tag, tagged.default, tagged.until) == (2, 3, -1, None)
    assert (nested.is_array, [each.name for each in nested.fields]) == (True, ["id", "racks"])


@pytest.mark.parametrize("table", ["a", "a:i33", "a:i32(nonsense)", "a:i32 b;", "a:i32}"])
def test_a_broken_table_is_refused(table):
    with pytest.raises(ValueError):
        parse_table(table)


@pytest.mark.parametrize("messages", ALL_TABLES)
def test_tags_and_names_are_unique_in_every_struct(messages):
    def check(fields):
        tags = [each.tag for each in fields if each.tag is not None]
        assert len(tags) == len(set(tags))
        assert len({each.name for each in fields}) == len(fields)
        for each in fields:
            check(each.fields)

    for message in messages.values():
        check(message.fields)


def test_a_field_of_one_version_only():
    message = MessageSchema("M", "a:i8, b:i8(v1)", highest=2, flexible=None)
    assert message.read(b"\x01", 0) == ({"a": 1}, 1)
    assert message.read(b"\x01\x02", 1) == ({"a": 1, "b": 2}, 2)
    assert message.read(b"\x01\x02", 2) == ({"a": 1}, 1)


def test_tags_unknown_ones_are_kept_and_defaults_left_out():
    message = MessageSchema("M", "a:i8, b:i8(tag0 =5), c:i8(tag1)")
    assert message.read(bytes.fromhex("01030001050101072202ffff"), 0) == (
        {"a": 1, "c": 7, "unknownTaggedFields": [{"tag": 34, "base64": "//8="}]},
        12,
    )


def test_texts_omit_unknown_tags_at_any_depth():
    message = MessageSchema("M", "a:[]{x:i8}")
    values, _ = message.read(bytes.fromhex("0205010801aa010901bb"), 0)
    assert json.dumps(values).count("unknownTaggedFields") == 2
    assert json_text(values) == '{"a":[{"x":5}]}'


def test_null_structs_in_line_and_tagged():
    message = MessageSchema("M", "a:{x:i8}?, b:{x:i8}?(tag0)")
    assert message.read(bytes.fromhex("ff01000100"), 0) == ({"a": None, "b": None}, 5)
    assert message.read(bytes.fromhex("010500010003010600"), 0) == ({"a": {"x": 5}, "b": {"x": 6}}, 9)


@pytest.mark.parametrize(
    "table, data, error",
    [
        ("a:i32", "000000", "null"),
        ("a:uuid", "00" * 15, "null"),
        ("a:str", "00", "non-nullable field a was serialized as null"),
        ("a:[]str", "0200", "non-nullable field a element was serialized as null"),
        ("a:str", "81800461", "string field a had invalid length 65536"),
        ("a:str", "0561", "Error reading byte array of 4 byte(s): only 1 byte(s) available"),
        ("a:[]i32", "06000000", "Tried to allocate a collection of size 5, but there are only 3 bytes remaining."),
        ("a:i8", "0105", "Tried to read 5 tagged fields, but there are only 0 bytes remaining."),
        ("a:i8(v1+ tag0)", "01000101", "Tag 0 is not valid for version 0"),
        ("a:i8", "000107ffffffff0f", "-1"),
    ],
)
def test_errors_are_in_kafkas_words(table, data, error):
    with pytest.raises(MessageError) as caught:
        MessageSchema("M", table).read(bytes.fromhex(data), 0)
    assert str(caught.value) == error


def test_elements_of_one_message_are_bounded():
    message = MessageSchema("M", "a:[]{b:[]i8, c:[]i8}")
    count = 1 << 19
    data = bytes((count + 1 >> shift & 0x7F) | (0x80 if shift < 14 else 0) for shift in (0, 7, 14)) + b"\1\1\0" * count
    with pytest.raises(MessageError, match="more than 1048576 array elements"):
        message.read(data, 0)


@given(st.integers(0, (1 << 32) - 1))
def test_uvarint(number):
    wire = Wire(uvarint(number))
    assert wire.uvarint() & 0xFFFFFFFF == number
    assert wire.remaining == 0


def test_a_uvarint_ends_after_five_bytes():
    with pytest.raises(MessageError, match=r"Varint is too long.*converted value: ffffffff"):
        Wire(b"\xff" * 6).uvarint()


def test_json_looks_as_from_jackson():
    shown = {"a": ['"\\\n\x01\x1f\x7fü😀', None, True, -1, 1e7, 0.5], "b": {}}
    assert json_text(shown) == '{"a":["\\"\\\\\\n\\u0001\\u001F\x7fü😀",null,true,-1,1.0E7,0.5],"b":{}}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_json_reads_back(shown):
    assert json.loads(json_text(shown)) == shown


@pytest.mark.parametrize("messages", ALL_TABLES)
@given(data=st.binary(max_size=100), version=st.integers(-2, 6))
def test_any_bytes_are_a_message_or_a_message_error(messages, data, version):
    for message in messages.values():
        try:
            fields, end = message.read(data, version)
        except MessageError:
            continue
        assert end <= len(data)
        json.dumps(fields, allow_nan=False)


def test_uuids():
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(b"\xff" * 16) == "_____________________w"


@pytest.mark.parametrize(
    "data, count",
    [
        (b"\xed\xa0\x80", 1),
        (b"\xed\xa0", 1),
        (b"\xed\xa0A", 1),
        (b"\xed\xa0\x80\xed\xb0\x80", 2),
        (b"\xe0\x80\x80", 3),
        (b"\xf0\x9f\x98", 1),
        (b"\xf4\x90\x80\x80", 4),
        (b"\xff\xfe", 2),
        (b"\xc3", 1),
    ],
)
def test_broken_utf8_is_replaced_as_java_does(data, count):
    assert java_text.decode(b"x" + data + b"z").count(java_text.REPLACEMENT) == count
    assert java_text.decode(b"x" + data + b"z").replace(java_text.REPLACEMENT, "") in ("xz", "xAz")
