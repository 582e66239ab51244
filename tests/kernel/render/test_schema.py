"""Records decoded in the kernel show as the decoders show them, whatever the bytes."""

import json
import struct
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.batches import twist
from kernel.encoding import Encoder, uvarint
from kernel.rendering import NOT_PLAIN, batch, frames, int64s, message, record, render
from kseg.decoders import decoder
from kseg.decoders.framed import type_name
from kseg.decoders.schemas import CLUSTER_METADATA, CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kseg.formats.control import control_text, parse_control
from kseg.formats.rows import Rows
from kseg.kernel.layout.headers import CREATE_TIME
from kseg.kernel.layout.rows import DONE, NEEDS_DECODING
from kseg.kernel.render.lines import DEEP, SKIP_METADATA
from kseg.kernel.render.rendering import Renderer
from kseg.segment.items import records_of

TESTDATA = Path(__file__).resolve().parents[3] / "testdata"
CONTEXT = (b'{"type":"batch","position":', b'{"type":"record","position":', b',"topic":"t","partition":0,"offset":')
COORDINATORS = {
    "offsets": CONSUMER_OFFSETS,
    "transaction-log": TRANSACTION_STATE,
    "share-group-state": SHARE_GROUP_STATE,
}
DECODERS = [*COORDINATORS, "cluster-metadata"]
OFFSET_KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"


class Kernel:
    """A caller of the kernel that finishes with the decoder what is left to it, and counts that."""

    def __init__(self, name, context=None, flags=DEEP):
        self.decoder = decoder(name)
        self.context, self.flags = context, flags
        self.left = 0

    def pieces(self, data, **sizes):
        renderer = Renderer(self.flags, self.context, self.decoder.program)
        return render(renderer, data, frames(data), finish=self.finish, **sizes)

    def lines(self, data, **sizes):
        pieces = self.pieces(data, **sizes)
        assert len(pieces) == 1
        return pieces[0]

    def finish(self, data, rows, headers, renderer):
        at = renderer.row * 10
        (left,) = records_of(Rows(data, rows[at : at + 10], headers, 1))
        if renderer.is_control:
            assert not self.context
            return control_text(parse_control(left.key, left.value)).encode() + b"\n"
        self.left += 1
        return rest_of_line(self.decoder, left.key, left.value, left.offset, self.context, self.flags)


def rest_of_line(decoder, key, value, offset, context, flags=DEEP):
    """What follows a record's metadata, by the decoder."""
    shown = decoder.decode(key, value, offset)
    if context:
        dumped = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in (shown.key, shown.value)]
        return f',"key":{dumped[0]},"value":{dumped[1]}}}\n'.encode()
    parts = [] if shown.key_text is None else [f" key: {shown.key_text}"]
    parts += [] if shown.payload_text is None else [f" payload: {shown.payload_text}"]
    return ("|" if flags & SKIP_METADATA and parts else "").encode() + "".join(parts).encode() + b"\n"


def expected(name, contents, data, context):
    """The lines of one batch of these keys and values: the metadata that a plain dump shows, and the decoder's."""

    (plain,) = render(Renderer(DEEP, context), data, frames(data), out_bytes=1 << 20)
    first, *metadata = plain.splitlines()
    made = decoder(name)
    rest = [rest_of_line(made, key, value, n, context) for n, (key, value) in enumerate(contents)]
    cut = 1 if context else 0
    return first + b"\n" + b"".join(line[: len(line) - cut] + end for line, end in zip(metadata, rest, strict=True))


def batch_of(contents):
    return batch([record(n, n, key, value) for n, (key, value) in enumerate(contents)])


def shown_as_decoded(name, contents, context=None, **sizes):
    """The lines of a batch, which are those of the decoder, and the number of records that were left to it."""
    kernel, data = Kernel(name, context), batch_of(contents)
    shown = kernel.lines(data, **sizes)
    assert shown == expected(name, contents, data, context)
    return shown, kernel.left


def versions(messages):
    for record_type, each in messages.items():
        for version in range(each.highest + 1):
            yield record_type, each, version


def every_message(name, encoder):
    """A key and a value of each record type and version."""
    if name == "cluster-metadata":
        for api_key, each, version in versions(CLUSTER_METADATA):
            yield None, b"\x01" + uvarint(api_key) + uvarint(version) + encoder.message(each, version)
        return
    schemas = COORDINATORS[name]
    for record_type, each, version in versions(schemas.values):
        key = struct.pack(">h", record_type) + encoder.message(schemas.keys[record_type], record_type)
        value = struct.pack(">h", version) + encoder.message(each, version)
        yield key, None if encoder.random.random() < 0.1 else value


@pytest.mark.sampled(3)
@pytest.mark.parametrize("context", [None, CONTEXT], ids=["text", "json"])
@pytest.mark.parametrize("name", DECODERS)
def test_every_message_is_shown_without_the_decoder(name, context):
    for seed in range(20):
        contents = list(every_message(name, Encoder(Random(seed))))
        _, left = shown_as_decoded(name, contents, context)
        # The one exception: a floating-point number. What clients wrote into a group may not be theirs to write.
        floats = sum("QUOTA" in type_name(each) for each in CLUSTER_METADATA.values())
        garbled = sum(b"consumer" in (value or b"") for _key, value in contents)
        assert left <= (floats if name == "cluster-metadata" else garbled)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("context", [None, CONTEXT], ids=["text", "json"])
@pytest.mark.parametrize("name", DECODERS)
@given(seed=st.integers(0, 1 << 32))
def test_odd_and_broken_messages(name, context, seed):
    random = Random(seed)
    contents = list(every_message(name, Encoder(random, odd=True)))
    random.shuffle(contents)
    broken = [
        (
            key and random.choice((key, key, twist(key, random))),
            value and random.choice((value, twist(value, random))),
        )
        for key, value in contents[:12]
    ]
    sizes = {"out_bytes": random.choice((4096, 5000, 65536)), "row_count": random.choice((1, 5, 64))}
    shown_as_decoded(name, broken, context, **sizes)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DECODERS)
@given(
    key=st.none() | st.binary(max_size=20).map(lambda raw: b"\x00" + raw),
    value=st.none() | st.binary(max_size=60).map(lambda raw: b"\x00" + raw) | st.binary(max_size=60),
)
def test_any_bytes(name, key, value):
    for context in (None, CONTEXT):
        shown_as_decoded(name, [(key, value)], context)


@pytest.mark.parametrize("context", [None, CONTEXT], ids=["text", "json"])
@pytest.mark.parametrize("name", DECODERS)
def test_types_and_versions_beyond_the_tables(name, context):
    """Each with a message of the next type, which must not be taken for it."""
    values = CLUSTER_METADATA if name == "cluster-metadata" else COORDINATORS[name].values
    most = max(each.highest for each in values.values()) + 3
    encoder, contents = Encoder(Random(1)), []
    for record_type in range(max(values) + 3):
        following = values.get(record_type + 1) or values[min(values)]
        body = encoder.message(following, 0)
        for version in range(most):
            if name == "cluster-metadata":
                contents.append((None, b"\x01" + uvarint(record_type) + uvarint(version) + body))
                continue
            keys = COORDINATORS[name].keys
            known = record_type if record_type in keys else min(keys)
            key = struct.pack(">h", record_type) + encoder.message(keys[known], known)
            contents.append((key, struct.pack(">h", version) + body))
    shown_as_decoded(name, contents, context, out_bytes=1 << 20)


def member(subscription, assignment):
    def sized(data, width=">h"):
        return struct.pack(width, len(data)) + data

    return (
        sized(b"m") + sized(b"client") + sized(b"/host") + struct.pack(">ii", 5, 6)
        + sized(subscription, ">i") + sized(assignment, ">i")
    )  # fmt: skip


@pytest.mark.parametrize("protocol", [b"consumer", b"connect", b"consumeR", b"consumer1", b""])
def test_protocols_of_members(protocol):
    subscription = (
        b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x01\x00\x01u\x00\x00\x00\x00left over"
    )
    assignment = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00"
    left = 0
    head = b"\x00\x01" + struct.pack(">h", len(protocol)) + protocol + b"\x00\x00\x00\x05\xff\xff\xff\xff"
    for pair in (
        (subscription, assignment),
        (b"", b"\x00"),
        (b"\x00\x04" + subscription[2:], assignment),
        (b"\xff\xff" + subscription[2:], assignment),
        (subscription[:-12], assignment),
        (b"\x00\x00", b"\x00\x00"),
    ):
        contents = [(b"\x00\x02\x00\x01g", head + struct.pack(">i", 1) + member(*pair))]
        shown, more = shown_as_decoded("offsets", contents)
        left += more
    assert (b'"topics":' in shown, left) == (False, 4 if protocol == b"consumer" else 0)


def test_a_struct_under_a_tag_that_has_its_default_is_left_out():
    key = b"\x00\x05\x00\x01g\x00\x01m"
    body = b"\x00\x00" + b"\x00\x00\x02c\x02h\x01\x00" + b"\x00\x00\x00\x07" + b"\x00"
    tagged = {
        b"\x01\x00\x07\x01\x00\x00\x00\x00\x01\x00": (False, 0),
        b"\x01\x00\x07\x01\x00\x00\x00\x01\x01\x00": (True, 0),
        b"\x01\x00\x01\x00": (True, 0),
        b"\x01\x00\x02\x00\x00": (True, 1),  # a byte more than the value takes
        b"\x00": (False, 0),
    }
    for tags, (is_shown, left) in tagged.items():
        shown, count = shown_as_decoded("offsets", [(key, body + tags)])
        assert (b"classicMemberMetadata" in shown, count) == (is_shown, left)


def marker(kind, key_version=0, version=0, epoch=7, more=b""):
    return struct.pack(">hh", key_version, kind) + more, struct.pack(">hi", version, epoch) + more


def control(*contents):
    return batch([record(n, n, key, value) for n, (key, value) in enumerate(contents)], attributes=0x30, producer=4)


def test_markers():
    data = control(marker(0, epoch=-1), marker(1, key_version=9, version=3, more=b"more"))
    first, second = Kernel("offsets").lines(data).splitlines()[1:]
    assert first.endswith(b"headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: -1")
    assert second.endswith(b"headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 7")
    assert Kernel("offsets", flags=DEEP | SKIP_METADATA).lines(data).splitlines()[1:] == [b"", b""]
    objects = [json.loads(line) for line in Kernel("offsets", CONTEXT).lines(data).splitlines()]
    assert objects[0]["isControl"]
    assert objects[1]["control"] == {"type": "ABORT", "version": 0, "coordinatorEpoch": -1}
    assert objects[2]["control"] == {"type": "COMMIT", "version": 3, "coordinatorEpoch": 7}
    assert (objects[1]["key"], objects[1]["value"]) == ("\0\0\0\0", {"base64": "AAD/////"})


@pytest.mark.parametrize(
    "key, value",
    [
        marker(2),
        marker(-1),
        marker(0, key_version=-1),
        marker(1, version=-1),
        (None, b"\x00" * 6),
        (b"\x00" * 4, None),
        (b"\x00" * 3, b"\x00" * 6),
        (b"\x00" * 4, b"\x00" * 5),
    ],
)
def test_other_control_records_are_the_callers(key, value):
    for context in (None, CONTEXT):
        kernel = Kernel("offsets", context)
        kernel.finish = lambda *found: b"<%d %d>\n" % (found[-1].row, found[-1].is_control)
        lines = kernel.lines(control(marker(1), (key, value), marker(0))).splitlines()
        assert lines[2].endswith(b"<1 1>")
        assert [b"COMMIT" in lines[1], b"ABORT" in lines[3]] == [True, True]


def test_records_left_to_the_caller_among_others():
    """Wherever the output ends: a line is begun by the kernel and ended by the caller, none is lost or doubled."""
    value = b"\x00\x03" + struct.pack(">qi", 5, -1) + b"\x00\x05" + b"meta\xff" + bytes(8)
    contents = [(OFFSET_KEY, value[: 18 + 2 * (n % 3)] if n % 3 else value) for n in range(200)]
    contents += [(OFFSET_KEY, None), (b"\x00\x63", b""), (None, b"x"), (OFFSET_KEY, b"\x00\x00" + bytes(18))] * 50
    for context in (None, CONTEXT):
        for out_bytes, row_count in ((4096, 1), (4096, 7), (9000, 64), (1 << 20, 1000)):
            _, left = shown_as_decoded("offsets", contents, context, out_bytes=out_bytes, row_count=row_count)
            assert left == 300


def test_a_message_larger_than_the_output():
    metadata = ("é\n" * 5000).encode()
    value = b"\x00\x01" + struct.pack(">qh", 5, len(metadata)) + metadata + bytes(16)
    topics = b"\x00\x00" + uvarint(9001) + b"\x02x" * 9000 + struct.pack(">qq", 1, 2) + b"\x00"
    contents = [(OFFSET_KEY, value), (b"\x00\x10\x00\x01g\x00\x01r", topics), (OFFSET_KEY, value)]
    for context in (None, CONTEXT):
        assert shown_as_decoded("offsets", contents, context, out_bytes=4096)[1] == 0


@pytest.mark.parametrize("count", [0x7FFFFFFF, 1 << 20, -2])
def test_a_claimed_count_is_the_decoders_to_refuse(count):
    value = b"\x00\x00" + uvarint(count & 0xFFFFFFFF) + b"\x02x" * 40
    assert shown_as_decoded("offsets", [(b"\x00\x10\x00\x01g\x00\x01r", value)], out_bytes=4096)[1] == 1


def test_older_messages():
    data = message(3, 0, OFFSET_KEY, b"\x00\x01" + bytes(26)) + message(
        4, 1, OFFSET_KEY, None, timestamp=9, attributes=8
    )
    lines = Kernel("offsets").lines(data).decode().splitlines()
    assert lines[1].startswith("| offset: 3 NoTimestampType: -1 keySize: 12 valueSize: 28 isValid: true crc: ")
    assert lines[1].endswith('"commitTimestamp":0,"expireTimestamp":0}}')
    assert lines[3].startswith("| offset: 4 LogAppendTime: 9 keySize: 12 valueSize: -1 isValid: true crc: ")
    assert lines[3].endswith('key: {"type":"1","data":{"group":"g","topic":"t","partition":3}} payload: <DELETE>')
    objects = [json.loads(line) for line in Kernel("offsets", CONTEXT).lines(data).splitlines()]
    assert [each.get("timestampType") for each in objects] == [None, None, "LogAppendTime", "LogAppendTime"]
    assert objects[1]["value"]["data"]["expireTimestamp"] == 0
    assert (objects[3]["key"]["type"], objects[3]["value"]) == ("1", None)


@pytest.mark.parametrize(
    "data", [batch([record(0)], attributes=2), batch([record(0)])[:-1] + b"\x01", batch([record(0)], count=2)]
)
def test_frames_that_are_not_plain_go_back_untouched(data):
    whole = batch_of([(OFFSET_KEY, None)])
    for context in (None, CONTEXT):
        pieces = Kernel("offsets", context).pieces(whole + data + whole)
        assert [piece if isinstance(piece, tuple) else piece.count(b"\n") for piece in pieces] == [2, (NOT_PLAIN, 1), 2]


def test_rows_of_a_buffer_of_their_own():
    value = b"\x00\x00" + bytes(18)
    payload = OFFSET_KEY + value
    first = [7, 99, 3, 0, len(OFFSET_KEY), len(OFFSET_KEY), len(value), 0, 0, 0]
    rows = int64s([*first, 8, 99, 4, -1, -1, 0, 0, 0, 0, 0, *first])
    out, renderer = bytearray(8192), Renderer(program=decoder("offsets").program)
    arguments = (payload, rows, int64s(0), 3, 2, CREATE_TIME, out, True)
    assert renderer.print_records(*arguments) == NEEDS_DECODING
    assert (renderer.record, renderer.records, renderer.row, renderer.is_control) == (2, 2, 1, False)
    assert bytes(out[: renderer.written]).endswith(
        b"\n| offset: 8 CreateTime: 99 keySize: -1 valueSize: 0 sequence: 4 headerKeys: []"
    )
    renderer = Renderer(0, CONTEXT, decoder("offsets").program)
    renderer.record, renderer.origin = 2, 55
    assert renderer.print_records(*arguments) == DONE
    shown = json.loads(bytes(out[: renderer.written]))
    assert (shown["position"], shown["offset"], shown["timestampType"]) == (55, 7, "CreateTime")
    assert shown["value"] == {"version": "0", "data": {"offset": 0, "metadata": "", "commitTimestamp": 0}}
