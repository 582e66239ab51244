"""Formats of keys and values: right and wrong sizes, and Kafka's class names."""

import json
import struct
import sys
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.decoders.values import CLASSES, FORMATS, FormatError, load
from kseg.decoders.values import ValuesDecoder as decoder

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")

SHOWN = [
    ("auto", b"caf\xc3\xa9", "café", "café"),
    ("auto", b"\xff\x00", "base64:/wA=", {"base64": "/wA="}),
    ("auto", b"\0\0\0\0\7x", "\0\0\0\0\7x", "\0\0\0\0\7x"),
    ("utf8", b"\xffa", "\ufffda", {"base64": "/2E="}),
    ("string", b"\xffa", "\ufffda", "\ufffda"),
    ("string", b"\xed\xa0\x80", "\ufffd", "\ufffd"),
    ("base64", b"abc", "YWJj", {"base64": "YWJj"}),
    ("hex", b"\0\xff", "00ff", {"hex": "00ff"}),
    ("json", b' {"a" : [1, 2.50, null]} ', '{"a":[1,2.5,null]}', {"a": [1, 2.5, None]}),
    ("json", '{"é": "\U0001f600\\u00e9"}'.encode(), '{"é":"\U0001f600é"}', {"é": "\U0001f600é"}),
    ("short", b"\xff\xfe", "-2", -2),
    ("int", b"\x80\0\0\0", "-2147483648", -2147483648),
    ("long", b"\x7f" + b"\xff" * 7, "9223372036854775807", 9223372036854775807),
    ("float", struct.pack(">f", 0.1), "0.1", 0.1),
    ("float", b"\x7f\xc0\0\0", "NaN", "NaN"),
    ("double", struct.pack(">d", 1e7), "1.0E7", 1e7),
    ("double", struct.pack(">d", float("-inf")), "-Infinity", "-Infinity"),
    ("boolean", b"\1", "true", True),
    ("boolean", b"\0", "false", False),
    ("uuid", str(GUID).upper().encode(), str(GUID), str(GUID)),
    ("uuid", GUID.bytes, str(GUID), str(GUID)),
    ("uuid", b"1-2-3-4-5", "00000001-0002-0003-0004-000000000005", "00000001-0002-0003-0004-000000000005"),
    ("bytes", b"a\\\n\xff~", "a\\x5C\\x0A\\xFF~", {"base64": "YVwK/34="}),
    ("confluent", b"\0\0\0\1\0{}", '{"schemaId":256,"payload":"{}"}', {"schemaId": 256, "payload": "{}"}),
    ("confluent", b"\0\0\0\0\7\xff", '{"schemaId":7,"payload":{"base64":"/w=="}}', None),
    ("confluent", b"\1" + GUID.bytes + b"x", f'{{"schemaGuid":"{GUID}","payload":"x"}}', None),
]


@pytest.mark.parametrize("name, data, text, value", SHOWN)
def test_what_fits_is_shown(name: str, data: bytes, text: str, value: object) -> None:
    decoded = decoder(value_format=name).decode(None, data, 0)
    assert decoded.payload_text == text
    assert (decoded.key_text, decoded.key) == (None, None)
    assert decoded.value == (json.loads(text) if value is None else value)
    assert decoder(key_format=name).decode(data, None, 0)[:4] == (text, None, decoded.value, None)


UNFIT = [
    ("short", b"\1", "<not a short, which has 2 bytes and not 1: 0x01>"),
    ("int", b"\1\2\3\4\5", "<not an int, which has 4 bytes and not 5: 0x0102030405>"),
    ("long", b"", "<not a long, which has 8 bytes and not 0: nothing>"),
    ("float", bytes(40), f"<not a float, which has 4 bytes and not 40: 0x{'00' * 32}... of 40 bytes>"),
    ("boolean", b"\2", "<not a boolean, which is one byte 0 or 1: 0x02>"),
    ("void", b"a", "<not void, which is always null: 0x61>"),
    ("uuid", b"a", "<not a UUID, neither its text nor its 16 bytes: 0x61>"),
    ("json", b"\xff", "<not JSON, as it is not UTF-8: 0xff>"),
    ("confluent", b"\0\0\0\7", "<no schema id before a payload: neither 0 and an int32, nor 1 and a GUID: 0x00000007>"),
    ("confluent", b"\0\xff\0\0\7", None),
    ("json", b"[NaN]", None),
    ("json", b"1e999", None),
    ("json", b"[" * 100_000, None),
    ("json", b"9" * 10_000, None),
    ("json", b"", None),
]


@pytest.mark.parametrize("name, data, text", UNFIT, ids=[f"{name}-{len(data)}" for name, data, _ in UNFIT])
def test_data_that_does_not_fit_the_format_is_an_error(name: str, data: bytes, text: str | None) -> None:
    decoded = decoder(value_format=name).decode(None, data, 0)
    assert decoded.payload_text is not None
    assert decoded.payload_text.startswith("<")
    assert text is None or decoded.payload_text == text
    assert set(decoded.value) == {"error", "base64"}


@given(st.sampled_from([*FORMATS, *CLASSES]), st.binary(max_size=40))
def test_any_bytes_have_a_text_and_json(name: str, data: bytes) -> None:
    decoded = decoder(name, name).decode(data, data, 5)
    assert decoded.key_text == decoded.payload_text
    json.dumps(decoded.value, allow_nan=False)


def test_null_is_nothing() -> None:
    for name in FORMATS:
        assert decoder(name, name).decode(None, None, 0) == (None, None, None, None, None)


def test_a_schema_in_a_header() -> None:
    """Only a header proves a schema: without one, auto prints bytes that resemble a schema id unchanged."""
    data, prefixed = b'{"a":1}', b"\0\0\0\0\7abc"
    headers = [(b"__value_schema_id", b"\1" + GUID.bytes), (b"other", None)]
    auto = decoder("auto", "auto")
    assert auto.decode(data, data, 0, headers)[:4] == (
        '{"a":1}', f'{{"schemaGuid":"{GUID}","payload":"{{\\"a\\":1}}"}}',
        '{"a":1}', {"schemaGuid": str(GUID), "payload": '{"a":1}'},
    )  # fmt: skip
    assert auto.decode(None, prefixed, 0).value == prefixed.decode()
    assert auto.decode(None, data, 0, [(b"__value_schema_id", b"\0\0\0\0\7")]).value["schemaId"] == 7
    assert auto.decode(None, data, 0, [(b"__value_schema_id", b"seven")]).value == '{"a":1}'
    assert decoder("hex", "hex").decode(None, b"a", 0, headers).payload_text == "61"


@pytest.mark.parametrize(
    "header, told",
    [
        (b"\1" + GUID.bytes + b"\6\2\4\6", {"schemaGuid": str(GUID), "messageIndexes": [1, 2, 3]}),
        (b"\1" + GUID.bytes + b"\0", {"schemaGuid": str(GUID), "messageIndexes": [0]}),
        (b"\0\0\0\0\7\2\x80\1", {"schemaId": 7, "messageIndexes": [64]}),
        (b"\1" + GUID.bytes + b"\4\2", None),
        (b"\1" + GUID.bytes + b"\2\x80", None),
        (b"\1" + GUID.bytes + b"\2" + b"\x80" * 9 + b"\1", None),
        (b"\1" + GUID.bytes[:15], None),
        (b"\2" + GUID.bytes, None),
        (b"", None),
    ],
)  # fmt: skip
def test_a_schema_header_of_protobuf(header: bytes, told: dict[str, object] | None) -> None:
    decoded = decoder("auto", "auto").decode(b"k", b"\x08\x96\1", 0, [(b"__value_schema_id", header)])
    payload = {"base64": "CJYB"}
    assert decoded.value == (payload if told is None else {**told, "payload": payload})
    assert decoded.key == "k"


def test_of_headers_of_a_name_the_last_counts() -> None:
    headers = [(b"__key_schema_id", b"\0\0\0\0\1"), (b"__key_schema_id", b"\0\0\0\0\2")]
    assert decoder("confluent", "auto").decode(b"k", None, 0, headers).key == {"schemaId": 2, "payload": "k"}
    headers.append((b"__key_schema_id", None))
    assert decoder("auto", "auto").decode(b"k", None, 0, headers).key == {"schemaId": 2, "payload": "k"}


def test_confluent_looks_before_the_payload_where_a_header_says_nothing() -> None:
    shown = decoder("auto", "confluent").decode(None, b"\0\0\0\0\7{}", 0, [(b"__value_schema_id", b"?")])
    assert shown.value == {"schemaId": 7, "payload": "{}"}


@pytest.mark.parametrize("package", ["org.apache.kafka.tools.api", "kafka.serializer"])
def test_decoder_classes_ignore_trailing_bytes(package: str) -> None:
    """IntegerDecoder uses ByteBuffer.getInt, which ignores trailing bytes."""
    assert load(f"{package}.IntegerDecoder")(b"\0\0\0\7rest").text == "7"
    assert load(f"{package}.LongDecoder")(bytes(7) + b"\7rest").text == "7"
    assert load(f"{package}.StringDecoder")(b"\xff").text == "\ufffd"
    assert load(f"{package}.DefaultDecoder")(b"\xff").text == "\\xFF"


def test_deserializer_classes_are_the_formats() -> None:
    package = "org.apache.kafka.common.serialization"
    assert load(f"{package}.UUIDDeserializer") is load("uuid")
    assert load(f"{package}.ByteArrayDeserializer") is load("bytes")
    assert len([name for name in CLASSES if name.startswith(package)]) == 12


MODULE = """
import decimal
class Readers:
    @staticmethod
    def total(data):
        return {"total": sum(data)}
def broken(data):
    raise KeyError(data)
def plain(data):
    return data[1:]
def strange(data):
    return decimal.Decimal("1.50")
def infinite(data):
    return float("inf")
number = 5
def with_headers(data, *, headers):
    return [data.decode(), headers]
class Callable:
    def __call__(self, data, headers=None):
        return {"names": [name.decode() for name, _ in headers]}
instance = Callable()
def gathers(data, **headers):
    return len(headers)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_formats.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_formats", raising=False)
    return "own_formats"


def test_a_function_of_ones_own(own_module: str) -> None:
    assert load(f"{own_module}:Readers.total")(b"\1\2")[:2] == ("{'total': 3}", {"total": 3})
    assert load(f"{own_module}:plain")(b"abc")[:2] == ("bc", "bc")
    assert load(f"{own_module}:strange")(b"")[:2] == ("1.50", "1.50")
    assert load(f"{own_module}:infinite")(b"")[:2] == ("inf", "inf")
    decoded = decoder(value_format=f"{own_module}:broken").decode(None, b"a", 0)
    assert decoded.payload_text == "<own_formats:broken: KeyError: b'a': 0x61>"
    assert decoded.value["base64"] == "YQ=="


def test_a_function_of_ones_own_is_given_headers(own_module: str) -> None:
    """KIP-82: deserializers receive the record's headers."""
    headers = [(b"trace", b"\1"), (b"empty", None)]

    def shown(name: str) -> str | None:
        return decoder(value_format=f"{own_module}:{name}").decode(b"k", b"v", 0, headers).payload_text

    assert shown("with_headers") == "['v', [(b'trace', b'\\x01'), (b'empty', None)]]"
    assert shown("instance") == "{'names': ['trace', 'empty']}"
    assert shown("gathers") == "0"
    assert shown("Readers.total") == "{'total': 118}"


@pytest.mark.parametrize(
    "name, told",
    [
        ("own_formats:absent", "has no attribute"),
        ("own_formats:number", "is not callable"),
        ("no_such_module:f", "No module named"),
        (":f", "ValueError"),
        ("com.example.OrderDecoder", "no class that kseg has an equivalent of"),
        ("int64", "there are auto, utf8"),
        ("", "there are auto, utf8"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_an_error(name: str, told: str, own_module: str) -> None:
    with pytest.raises(FormatError, match=told):
        load(name)
