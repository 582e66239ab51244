"""Text: lines of every kind, and what the JDK makes of any bytes. tests/dump has what Kafka's tool printed."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel.rendering import NOT_PLAIN, batch, frames, int64s, message, printed_rows, record, render
from kseg.kernel.layout.headers import APPEND_TIME, CREATE_TIME
from kseg.kernel.layout.rows import ROW_WIDTH
from kseg.kernel.render.lines import CONTENTS, DEEP, ESCAPE, LINE_ONLY, SKIP_METADATA
from kseg.kernel.render.rendering import Renderer

TESTDATA = Path(__file__).resolve().parents[3] / "testdata"


def java_cases():
    for line in (TESTDATA / "kernel" / "java-utf8.txt").read_text("ascii").splitlines():
        given, printed = line.split(": ")
        yield bytes.fromhex(given.strip("-")), "".join(chr(int(point, 16)) for point in printed.strip("-").split())


JAVA = list(java_cases())


def lines(data, flags, **sizes):
    """The text of a segment whose frames are all plain."""
    (piece,) = render(Renderer(flags), data, frames(data), **sizes)
    return piece


def printed_value(value, flags=0):
    rows = int64s([0, 0, -1, 0, -1, 3, len(value), 0, 0, 0])
    line = printed_rows(Renderer(flags | CONTENTS | SKIP_METADATA), b"..." + value + b"\xbf", rows)
    assert line.startswith(b"| payload: ")
    assert line.endswith(b"\n")
    return line[11:-1]


@pytest.mark.parametrize("value, expected", JAVA, ids=[case.hex()[:24] or "empty" for case, _printed in JAVA])
def test_bytes_decode_as_java_decodes_them(value, expected):
    for before in (b"", b"a" * 15, b"a" * 16, b"b" * 33):
        for after in (b"", b"z" * 40):
            # What an unfinished sequence comes to must not depend on what lies behind the value.
            assert printed_value(before + value + after) == before + expected.encode() + after


def test_unfinished_sequences_next_to_each_other():
    joined = b" ".join(value for value, _printed in JAVA)
    assert printed_value(joined).decode() == " ".join(printed for _value, printed in JAVA)


@given(st.binary(max_size=200).map(lambda raw: raw.replace(b"\xed", b"\xee")))
def test_without_surrogates_java_and_python_agree(value):
    assert printed_value(value) == value.decode("utf-8", "replace").encode()


@given(st.text(max_size=100))
def test_a_terminal_gets_no_control_characters(value):
    def shown(character):
        named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character)
        return named or (
            rf"\x{ord(character):02x}" if ord(character) < 32 or 127 <= ord(character) < 160 else character
        )

    raw = value.encode("utf-8", "replace")
    assert printed_value(raw, ESCAPE).decode() == "".join(map(shown, raw.decode()))


def test_batch_lines_of_every_kind():
    v2 = batch(
        [record(0), record(1)],
        base_offset=5,
        attributes=0x58,
        base_timestamp=77,
        sequence=2147483647,
        producer=9,
        epoch=3,
        leader_epoch=-1,
    )
    assert lines(v2, 0).decode().rsplit(" crc: ")[0] == (
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 9 producerEpoch: 3 "
        "partitionLeaderEpoch: -1 isTransactional: true isControl: false deleteHorizonMs: OptionalLong[77] position: 0 "
        f"LogAppendTime: 9000 size: {len(v2)} magic: 2 compresscodec: none"
    )
    v1 = message(7, 1, None, b"", timestamp=-1, attributes=8)
    v0 = message(8, 0, None, None)
    first, second = lines(v1 + v0, 0).decode().splitlines()
    assert first.startswith("offset: 7 position: 0 LogAppendTime: -1 size: 34 magic: 1 compresscodec: none crc: ")
    assert second.startswith("offset: 8 position: 34 NoTimestampType: -1 size: 26 magic: 0 compresscodec: none crc: ")
    assert second.endswith(" isvalid: true")


@pytest.mark.parametrize("magic, codec", [(3, 0), (127, 4), (2, 5), (2, 7), (-1, 0), (1, 6)])
def test_line_only_takes_whatever_it_gets(magic, codec):
    names = ["none", "gzip", "snappy", "lz4", "zstd", "unknown(5)", "unknown(6)", "unknown(7)"]
    whole = bytearray(batch([record(0)]))
    whole[16] = magic & 0xFF
    whole[22 if magic >= 2 else 17] = codec
    line = lines(bytes(whole), LINE_ONLY).decode()
    assert line.startswith("baseOffset: 0 " if magic >= 2 else "offset: 0 ")
    assert f" magic: {magic} compresscodec: {names[codec]} crc: " in line
    assert line.endswith(" isvalid: false\n")


def test_a_header_cut_off_by_the_end_of_the_buffer_reads_as_zeros():
    whole = bytearray(batch([record(0)], base_offset=3)[:30])
    found = int64s([0, 30, 2, 0])
    (line,) = render(Renderer(LINE_ONLY), whole, found)
    assert line.startswith(b"baseOffset: 3 lastOffset: 3 count: 0 ")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(batch([record(0)], attributes=1), id="compressed"),
        pytest.param(batch([record(0)], attributes=0x20), id="control"),
        pytest.param(batch([record(0)], count=2), id="count too large"),
        pytest.param(batch([record(0)], count=-1), id="count negative"),
        pytest.param(batch([record(0), record(1) + b"\0"]), id="bytes left over"),
        pytest.param(batch([record(n) for n in range(99)] + [b"\x7f"]), id="broken behind the first rows"),
        pytest.param(batch([record(1), record(0)]), id="offsets fall"),
        pytest.param(batch([record(0), record(5)]), id="an offset behind the last"),
        pytest.param(batch([record(0), record(0)], last_delta=0), id="more records than offsets"),
        pytest.param(batch([record(n) for n in range(99)] + [record(50)]), id="offsets fall behind the first rows"),
        pytest.param(batch([record(0)])[:-1] + b"\x01", id="wrong CRC"),
        pytest.param(message(0, 1, None, b"x", attributes=2), id="wrapper"),
        pytest.param(message(0, 0, b"k", b"x")[:-1] + b"y", id="v0, wrong CRC"),
    ],
)
def test_what_is_not_plain_goes_back_to_the_caller_untouched(data):
    whole = batch([record(0)]) + data + message(1, 1, None, None)
    renderer = Renderer(DEEP)
    pieces = render(renderer, whole, frames(whole), row_count=8)
    assert [piece if isinstance(piece, tuple) else piece.count(b"\n") for piece in pieces] == [2, (NOT_PLAIN, 1), 2]
    assert (renderer.batches, renderer.records) == (2, 2)


def test_sizes_that_do_not_fill_a_message_are_not_plain():
    import struct
    import zlib

    for sizes in ((-2, -1), (-1, -2), (0, 1), (1, -1), (2**31 - 1, 0), (-1, 2**31 - 1)):
        body = struct.pack(">bbii", 0, 0, *sizes)
        whole = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
        assert render(Renderer(DEEP), whole, frames(whole))[1] == (NOT_PLAIN, 0)


def test_large_batches_resume_at_any_record():
    headers = [(b"h%d" % n, None if n % 2 else b"x" * n) for n in range(5)]
    records = [record(n, n, b"k" * (n % 7), b"v" * (n * 13 % 900), headers[: n % 6]) for n in range(700)]
    whole = batch(records, sequence=2147483600) * 2
    reference = lines(whole, DEEP | CONTENTS, out_bytes=1 << 21, row_count=1000, header_count=4000)
    assert reference.count(b"\n") == 1402
    assert b"| offset: 699 CreateTime: 1699 keySize: 6 valueSize: 87 sequence: 651 headerKeys: [h0,h1,h2]" in reference
    for out_bytes, row_count, header_count in ((4096, 1, 1), (4096, 3, 8), (65536, 100, 64), (5000, 2000, 4000)):
        sizes = {"out_bytes": out_bytes, "row_count": row_count, "header_count": header_count}
        assert lines(whole, DEEP | CONTENTS, **sizes) == reference


def test_a_value_larger_than_the_output():
    value = b"\xff\n" * 150_000
    whole = batch([record(0, value=b"small"), record(1, value=value, headers=[(b"h" * 9000, b"")])])
    expected = b" payload: " + b"\xef\xbf\xbd\n" * 150_000 + b"\n"
    assert lines(whole, DEEP | CONTENTS, out_bytes=4096).endswith(b"headerKeys: [" + b"h" * 9000 + b"]" + expected)


def test_skipped_metadata_leaves_blank_lines():
    whole = batch([record(0), record(1, key=b"k"), record(2, value=b"v"), record(3, key=b"", value=b"")])
    shown = lines(whole, DEEP | CONTENTS | SKIP_METADATA).split(b"\n", 1)[1]
    assert shown == b"\n| key: k\n| payload: v\n| key:  payload: \n"
    assert lines(whole, DEEP | SKIP_METADATA).split(b"\n", 1)[1] == b"\n\n\n\n"


def test_rows_of_older_messages():
    rows = int64s([41, -1, -1, 0, 3, 3, -1, 0, 0, 0xFFFFFFFF, 42, 5, -1, 0, 0, 0, 1, 0, 0, 1 << 32 | 1 << 33 | 7])
    assert printed_rows(Renderer(CONTENTS), b"keyv", rows, 1, APPEND_TIME, 4096) == (
        b"| offset: 41 LogAppendTime: -1 keySize: 3 valueSize: -1 isValid: false crc: 4294967295 key: key\n"
        b"| offset: 42 LogAppendTime: 5 keySize: 0 valueSize: 1 isValid: true crc: 7 key:  payload: k\n"
    )


numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-1, 0, 9, 10, 99, 9999, 10000, 10001, 99999]))


EDGES = [sign * (10**k + d) for k in range(19) for d in (-1, 0, 1) for sign in (1, -1)] + [2**63 - 1, -(2**63)]


@given(st.lists(st.tuples(numbers, numbers, st.integers(-1, 2**31 - 1)), max_size=8))
@example([(edge, edge, -1) for edge in EDGES])
@example([(10**a + 10**b, 0, 0) for a in range(18) for b in range(a)])  # zeros inside
def test_any_numbers(columns):
    rows = int64s([value for row in columns for value in (*row, 0, -1, 0, -1, 0, 0, 0)])
    assert printed_rows(Renderer(), b"", rows).decode() == "".join(
        f"| offset: {o} CreateTime: {t} keySize: -1 valueSize: -1 sequence: {s} headerKeys: []\n" for o, t, s in columns
    )


def test_nothing_is_decoded_without_a_program():
    with pytest.raises(ValueError, match="no program"):
        Renderer().print_records(b"k", int64s(ROW_WIDTH), int64s(0), 1, 2, CREATE_TIME, bytearray(4096), True)
