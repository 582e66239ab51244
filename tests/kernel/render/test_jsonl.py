"""JSON Lines against a plain Python account of the same records; key order, escapes, nulls and base64 included."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import NOT_PLAIN, batch, frames, int64s, message, printed_rows, record, render
from kseg.kernel.layout.headers import APPEND_TIME
from kseg.kernel.render.lines import BASE64_KEYS, BASE64_VALUES, CONTENTS, DEEP
from kseg.kernel.render.rendering import Renderer

TESTDATA = Path(__file__).resolve().parents[3] / "testdata"
CONTEXT = (
    b'{"type":"batch","file":"o/0.log","position":',
    b'{"type":"record","file":"o/0.log","position":',
    b',"topic":"o","partition":0,"offset":',
)
LEGACY_KEYS = (
    "type file position size magic baseOffset lastOffset count compression timestampType maxTimestamp crc "
    "isValid problems"
).split()
RECORD_KEYS = (
    "type file position topic partition offset timestamp timestampType sequence keySize valueSize headers key value"
).split()


def printer(flags, context=CONTEXT):
    return Renderer(flags, context)


def objects(data, flags, **sizes):
    """The objects of a segment whose frames are all plain."""
    pieces = render(printer(flags), data, frames(data), **sizes)
    assert len(pieces) == 1
    assert pieces[0] == b"" or pieces[0].endswith(b"}\n")
    return [json.loads(line) for line in pieces[0].split(b"\n")[:-1]]


def shown(raw, as_base64=False):
    if raw is None:
        return None
    if not as_base64:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(raw).decode()}


def size_of(raw):
    return -1 if raw is None else len(raw)


def printed_value(value):
    rows = int64s([0, 0, -1, 0, -1, 3, len(value), 0, 0, 0])
    line = printed_rows(printer(CONTENTS), b"..." + value + b"\xbf", rows)
    assert line.endswith(b"}\n")
    return line.split(b'"key":null,"value":')[1][:-2]


def test_what_is_unset_is_null_but_times_stay_numbers():
    whole = batch([record(0)], attributes=0x40, base_timestamp=55, max_timestamp=-1, leader_epoch=-1)
    (only,) = objects(whole, 0)
    unset = ["baseSequence", "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch", "baseTimestamp"]
    assert [only[name] for name in unset] == [None] * 6
    assert (only["deleteHorizonMs"], only["maxTimestamp"]) == (55, -1)


@pytest.mark.parametrize("codec, name", list(enumerate(["none", "gzip", "snappy", "lz4", "zstd"])))
def test_a_compressed_batch_has_a_line_but_its_records_are_the_callers(codec, name):
    whole = batch([record(0)], attributes=codec)
    assert objects(whole, 0)[0]["compression"] == name
    pieces = render(printer(DEEP), whole, frames(whole))
    assert ((NOT_PLAIN, 0) in pieces) == (codec != 0)


def test_older_messages_lack_what_their_format_lacks():
    whole = message(4, 0, b"k", None) + message(5, 1, None, b"v", timestamp=-1) + message(6, 1, b"", b"", attributes=8)
    first, second, third, fourth, fifth, sixth = objects(whole, DEEP | CONTENTS)
    assert list(first) == [key for key in LEGACY_KEYS if key not in ("timestampType", "maxTimestamp")]
    assert list(second) == [
        key for key in RECORD_KEYS if key not in ("timestamp", "timestampType", "sequence", "headers")
    ]
    assert list(third) == list(fifth) == LEGACY_KEYS
    assert list(fourth) == list(sixth) == [key for key in RECORD_KEYS if key not in ("sequence", "headers")]
    assert (second["key"], second["keySize"], second["value"], second["valueSize"]) == ("k", 1, None, -1)
    assert (third["baseOffset"], third["lastOffset"], third["count"], third["maxTimestamp"]) == (5, 5, 1, -1)
    assert (fourth["timestamp"], fourth["timestampType"], fourth["position"]) == (-1, "CreateTime", 27)
    assert (sixth["timestamp"], sixth["timestampType"], sixth["key"]) == (5, "LogAppendTime", "")


def changed(data, position, value):
    whole = bytearray(data)
    whole[position] = value
    return bytes(whole)


@pytest.mark.parametrize("flags", [0, DEEP])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(changed(batch([record(0)]), 17, 1), id="wrong CRC"),
        pytest.param(changed(batch([record(0)]), 16, 3), id="magic 3"),
        pytest.param(changed(batch([record(0)]), 16, 0xFF), id="magic -1"),
        pytest.param(batch([record(0)], attributes=6), id="unknown codec"),
        pytest.param(batch([record(0)], count=-1), id="negative count"),
        pytest.param(message(0, 1, None, b"set", attributes=1), id="wrapper"),
    ],
)
def test_a_problem_is_never_printed_as_none(data, flags):
    whole = batch([record(0)]) + data + batch([record(0)])
    renderer = printer(flags)
    pieces = render(renderer, whole, frames(whole))
    assert pieces[1] == (NOT_PLAIN, 1)
    assert (len(pieces), renderer.batches) == (3, 2)


raw_bytes = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text('\\"\n\t\r\b\f\0\x1f\x7f aé日😀', max_size=80).map(str.encode),
)
nullable = st.one_of(st.none(), raw_bytes)
fields = st.tuples(
    nullable, nullable, st.lists(st.tuples(raw_bytes, nullable), max_size=4), st.integers(-(2**40), 2**40)
)


@given(
    st.lists(fields, min_size=1, max_size=12),
    st.sampled_from([0, CONTENTS, CONTENTS | BASE64_KEYS, CONTENTS | BASE64_VALUES]),
    st.sampled_from([0, 8, 0x10]),
    st.sampled_from([-1, 0, 2147483640]),
)
def test_records_are_what_was_put_in(records, flags, attributes, sequence):
    encoded = [record(n, delta, key, value, headers) for n, (key, value, headers, delta) in enumerate(records)]
    whole = batch([record(0)]) + batch(encoded, base_offset=10**6, attributes=attributes, sequence=sequence)
    expected = []
    for n, (key, value, headers, delta) in enumerate(records):
        append_time = attributes & 8
        expected.append(
            {
                "type": "record",
                "file": "o/0.log",
                "position": len(batch([record(0)])),
                "topic": "o",
                "partition": 0,
                "offset": 10**6 + n,
                "timestamp": 9000 if append_time else 1000 + delta,
                "timestampType": "LogAppendTime" if append_time else "CreateTime",
                "sequence": None if sequence < 0 else (sequence + n) % 2**31,
                "keySize": size_of(key),
                "valueSize": size_of(value),
                "headers": [
                    {"key": shown(name), **({"value": shown(content)} if flags else {})} for name, content in headers
                ],
            }
        )
        if flags:
            expected[-1]["key"] = shown(key, flags & BASE64_KEYS)
            expected[-1]["value"] = shown(value, flags & BASE64_VALUES)
    found = objects(whole, DEEP | flags, out_bytes=4096, row_count=5, header_count=3)[3:]
    assert found == expected
    assert [list(line) for line in found] == [list(line) for line in expected]


@given(st.text(max_size=120))
def test_only_what_json_requires_is_escaped(value):
    raw = value.encode("utf-8", "replace")
    assert printed_value(raw).decode() == json.dumps(raw.decode(), ensure_ascii=False)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65])
def test_escapes_at_every_place_of_a_block(length):
    for character in ('"', "\\", "\n", "\x01", "\x7f", "é", "😀"):
        for place in range(length + 1):
            value = "a" * place + character + "b" * (length - place)
            assert printed_value(value.encode()).decode() == json.dumps(value, ensure_ascii=False)
    assert json.loads(printed_value(b'"' * length)) == '"' * length


@pytest.mark.parametrize(
    "raw", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\xe6\x97", b"\xff", b"\x80a", b"\xf0"]
)
def test_what_is_not_quite_utf8_is_an_object(raw):
    for before in (b"", b"q" * 14, b'"' * 33):
        for after in (b"", b"z", b"zz", b"z" * 30):
            assert json.loads(printed_value(before + raw + after)) == shown(before + raw + after, True)


@pytest.mark.parametrize("value", [b"\x01" * 200_000, b"\xff" * 200_000, b"a" * 200_000, "日".encode() * 70_000])
def test_a_value_larger_than_the_output(value):
    whole = batch([record(0, value=b"small"), record(1, value=value, headers=[(value[:9999], value)])])
    last = objects(whole, DEEP | CONTENTS, out_bytes=4096)[-1]
    assert (last["value"], last["headers"]) == (shown(value), [{"key": shown(value[:9999]), "value": shown(value)}])


def test_a_long_file_name_makes_the_output_grow():
    name = b"x" * 9000
    context = tuple(piece.replace(b"o/0.log", name) for piece in CONTEXT)
    whole = batch([record(0)])
    pieces = render(printer(DEEP, context), whole, frames(whole), out_bytes=4096)
    assert [json.loads(line)["file"] for line in pieces[0].splitlines()] == [name.decode()] * 2


def test_positions_count_from_the_base():
    whole = batch([record(0)]) * 2
    found, renderer = frames(whole), printer(DEEP)
    renderer.origin = 10**12
    (shown,) = render(renderer, whole, found)
    positions = [json.loads(line)["position"] for line in shown.splitlines()]
    assert positions == [10**12, 10**12, 10**12 + found[4], 10**12 + found[4]]


def test_rows_of_older_messages_tell_their_own_timestamp_type():
    rows = []
    for kind in (0, 1, 2):
        rows += [kind, 7, -1, 0, 1, 0, -1, 0, 0, kind << 33 | 1 << 32 | 5]
    renderer = printer(0)
    renderer.origin = 99
    found = [json.loads(line) for line in printed_rows(renderer, b"k", int64s(rows), 1, APPEND_TIME).splitlines()]
    assert [line.get("timestampType") for line in found] == [None, "CreateTime", "LogAppendTime"]
    assert [line.get("timestamp") for line in found] == [None, 7, 7]
    assert all(line["position"] == 99 and "sequence" not in line and "headers" not in line for line in found)


def test_a_context_that_is_not_bytes_is_refused():
    with pytest.raises(TypeError):
        printer(0, ("text", *CONTEXT[1:]))
