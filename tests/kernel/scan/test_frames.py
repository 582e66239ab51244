"""Where a frame could begin, what headers say and which may follow, and how zeros are counted: against the plainest way
to tell each."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, int64s, message, record
from kseg.kernel import COMPILED
from kseg.kernel.layout.rows import DONE, FRAME_POSITION, FRAME_STATE, FRAME_WIDTH, IRREGULAR
from kseg.kernel.scan import frames
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.frames import FrameScan, continues, offset_continues

GOOD = batch([record(0, value=b"value")])
NEEDS_COMPILED = pytest.mark.skipif(not COMPILED, reason="so many bytes take the interpreted kernel too long")


def scan_of(data, anchor=0, v07=False):
    """One with prefix CRCs from ``anchor`` on, -1 for none."""
    scan = FrameScan(v07)
    if anchor >= 0:
        scan.use_prefixes(anchor, len(data) - anchor)
    return scan


def judged(data, largest=1 << 20, anchor=0, v07=False):
    """(status, [(position, is intact)], position reached) of a scan that judges frames whose CRC is wrong."""
    rows, scan = int64s(64 * FRAME_WIDTH), scan_of(data, anchor, v07)
    scan.largest = largest
    status = frames.scan(scan, data, len(data), rows)
    found = [
        (rows[at + FRAME_POSITION], rows[at + FRAME_STATE]) for at in range(0, scan.count * FRAME_WIDTH, FRAME_WIDTH)
    ]
    return status, found, scan.position


def first_found(data, start, stop, anchor=0, v07=False):
    return frames.find(scan_of(data, anchor, v07), data, start, stop, len(data))


@pytest.mark.parametrize("filling", [b"\0", b"\1", b"\2", b"\xff", None])
def test_a_frame_is_found_wherever_it_lies(filling):
    """At each place within the 64 positions that are looked at together, and at both ends of what is searched. Fills of
    1 and 2 seem to begin a frame at each byte."""
    for before in (*range(150), *range(1000, 1130)):
        lead = random.Random(before).randbytes(before) if filling is None else filling * before
        data = lead + GOOD + b"\xff" * 40
        assert first_found(data, 0, len(data)) == before
        assert first_found(data, before, before + 1) == before
        assert first_found(data, 0, before) == -1
        assert first_found(data, before + 1, len(data)) == -1


def test_the_last_place_for_a_message_is_searched():
    small = message(0, 0, None, None)
    assert len(small) == 26
    assert first_found(b"\xff" * 100 + small, 0, 126) == 100
    assert first_found(b"\xff" * 100 + small[:-1], 0, 125) == -1


def overlapping(rng, magic, size, reach):
    """Headers at random distances, each of which claims up to ``reach`` bytes, and no checksum of which is right."""
    data = bytearray()
    while len(data) < size:
        head = batch([], last_delta=0)[:61] if magic == 2 else message(0, magic, None, b"")
        claim = len(head) + rng.randrange(2000, reach)
        fitting = b"" if magic == 2 else (claim - len(head)).to_bytes(4, "big")
        data += head[:8] + (claim - 12).to_bytes(4, "big") + head[12 : len(head) - len(fitting)] + fitting
        data += rng.randbytes(rng.randrange(150))
    return bytes(data)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("size", [3000, 70_000, pytest.param((1 << 24) + 300_000, marks=NEEDS_COMPILED)])
def test_a_frame_among_overlapping_headers_is_found(magic, size):
    """Each asks for a checksum over another distance, and so does the intact one, the largest of them."""
    rng = random.Random(size)
    before = overlapping(rng, magic, 20_000, size)
    inside = before * (size // len(before) + 1)
    frame = batch([record(0, value=inside)]) if magic == 2 else message(5, magic, None, inside)
    data = before + frame + b"\xff" * size
    assert frames.find(scan_of(data), data, 0, len(data), len(data)) == len(before)


def is_frame_but_for_its_checksum(data, i, v07):
    """By the tables of the formats, field by field."""

    def field(at, size=4):
        return int.from_bytes(data[i + at : i + at + size], "big", signed=True)

    left = len(data) - i
    if v07:
        return left >= 9 and data[i + 4] <= 1 and 5 + data[i + 4] < field(0) <= left - 4
    if left < 26 or data[i + 16] > 2 or field(0, 8) < 0 or field(8) > left - 12:
        return False
    if data[i + 16] == 2:
        fields = field(23) >= 0 and field(43, 8) >= -1 and field(53) >= -1 and field(57) >= 0
        return field(8) >= 49 and data[i + 22] & 7 <= 4 and fields
    at = 18 + 8 * data[i + 16]
    if field(8) < at - 4:
        return False
    key_size = max(field(at), 0)
    return key_size <= field(8) and at + 8 + key_size + max(field(at + 4 + key_size), 0) == field(8) + 12


SMALL = st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 13, 14, 49, 127, 128, 255]), max_size=200).map(bytes)
HEADS = st.sampled_from([GOOD[:61], message(1, 0, b"k", None), message(7, 1, None, b"value"), b"\0\0\0\7\0" + bytes(4)])


@pytest.mark.skipif(COMPILED, reason="the search in C leaves the check of fields to its caller")
@given(data=st.lists(st.one_of(SMALL, HEADS), max_size=5).map(b"".join), v07=st.booleans())
def test_all_frames_are_candidates_and_nothing_else(data, v07):
    magic_at = 4 if v07 else 16
    for start in (0, 1):
        stop = max(len(data) - magic_at, start)
        expected = [i for i in range(start, stop) if is_frame_but_for_its_checksum(data, i, v07)]
        found, i = [], start
        while (i := frames.next_candidate(data, i, stop, len(data), v07)) < stop:
            found.append(i)
            i += 1
        assert found == expected


def int32s(least):
    return st.sampled_from([least, 0, 1, 255, 256, (1 << 24) - 1, 1 << 24, (1 << 31) - 1]).map(
        lambda number: number.to_bytes(4, "big", signed=True)
    )


@st.composite
def messages(draw):
    """Of magic 0 or 1, sealed, whose sizes of key and value fit; a negative size is that of null, whichever it is."""
    magic, parts = draw(st.integers(0, 1)), []
    for _ in range(2):
        size = draw(st.sampled_from([-(1 << 31), -(1 << 24), -256, -2, -1, 0, 1, 13, 14, 22, 127, 128, 255, 256, 1200]))
        parts.append(size.to_bytes(4, "big", signed=True) + draw(st.sampled_from([b"\0", b"\1", b"\xff"])) * size)
    head = draw(st.binary(min_size=9 + 8 * magic, max_size=9 + 8 * magic))
    body = bytes([magic]) + head[8:] + parts[0] + parts[1]
    return bytes([head[0] & 127]) + head[1:8] + (4 + len(body)).to_bytes(4, "big") + int_bytes(crc32(body)) + body


@st.composite
def record_batches(draw):
    """Of magic 2, sealed, with fields that a writer may have filled so, at the bounds of what is looked at."""
    bits = draw(st.binary(min_size=32, max_size=32))
    codec = bits[8] & 0xF8 | draw(st.integers(0, 4))
    producer_id = draw(st.sampled_from([-1, 0, 1 << 62])).to_bytes(8, "big", signed=True)
    body = bits[9:10] + bytes([codec]) + draw(int32s(0)) + bits[10:26] + producer_id + bits[26:28] + draw(int32s(-1))
    body += draw(int32s(0)) + draw(st.sampled_from([b"", b"\0", b"\xff" * 200, bytes(1200)]))
    head = bytes([bits[0] & 127]) + bits[1:8] + (9 + len(body)).to_bytes(4, "big") + bits[28:32]
    return head + b"\2" + int_bytes(crc32c(body)) + body


def int_bytes(number):
    return number.to_bytes(4, "big")


def has_right_checksum(data, i):
    end = i + 12 + int.from_bytes(data[i + 8 : i + 12], "big")
    crc, at = (crc32c, 17) if data[i + 16] == 2 else (crc32, 12)
    return crc(data[i + at + 4 : end]) == int.from_bytes(data[i + at : i + at + 4], "big")


def has_right_checksum_07(data, i):
    start = i + 9 + data[i + 4]
    return crc32(data[start : i + 4 + int.from_bytes(data[i : i + 4], "big")]) == int.from_bytes(
        data[start - 4 : start], "big"
    )


@given(
    pieces=st.lists(st.one_of(messages(), record_batches(), SMALL, HEADS), max_size=6),
    behind=st.sampled_from([b"", b"\0" * 200, b"\xff" * 200]),
    anchor=st.sampled_from([-1, 0]),
)
def test_all_frames_with_a_right_checksum_are_found_and_nothing_else(pieces, behind, anchor):
    """Whatever a search passes over at a glance, many positions at once."""
    data = b"".join(pieces) + behind
    expected = [
        i for i in range(len(data)) if is_frame_but_for_its_checksum(data, i, False) and has_right_checksum(data, i)
    ]
    found, at = [], 0
    while data and (at := first_found(data, at, len(data), anchor)) >= 0:
        found.append(at)
        at += 1
    assert found == expected


def crowd(rng, count, v07):
    """Headers of all magics at short distances, which claim what lies behind them; some checksums are right."""
    data, places = bytearray(), []
    for _ in range(count):
        magic = rng.randrange(2 if v07 else 3)
        if v07:
            head = bytes(4) + bytes([magic, *rng.randbytes(magic)]) + rng.randbytes(4)
        else:
            head = batch([], last_delta=0)[:61] if magic == 2 else message(0, magic, None, b"")
        places.append((len(data), magic))
        data += head + rng.randbytes(rng.randrange(200))
    for position, magic in places:
        size = min(rng.choice([rng.randrange(61, 300), rng.randrange(61, 9000)]), len(data) - position)
        size_at, value_at = (position, 0) if v07 else (position + 8, 0 if magic == 2 else position + 22 + 8 * magic)
        data[size_at : size_at + 4] = int_bytes(size - size_at - 4 + position)
        if value_at:
            data[value_at : value_at + 4] = int_bytes(size - value_at - 4 + position)
    for position, magic in reversed(places):
        size_at = position if v07 else position + 8
        end = size_at + 4 + int.from_bytes(data[size_at : size_at + 4], "big")
        start = position + (9 + magic if v07 else 21 if magic == 2 else 16)
        if rng.random() < 0.05 and start < end <= len(data):
            data[start - 4 : start] = int_bytes((crc32c if magic == 2 else crc32)(data[start:end]))
    return bytes(data)


@pytest.mark.parametrize("v07", [False, True], ids=["v0 to v2", "0.7"])
@pytest.mark.parametrize("seed", range(6))
def test_of_a_crowd_of_headers_those_with_a_right_checksum_are_found(seed, v07):
    rng = random.Random(seed)
    data = rng.randbytes(rng.randrange(300)) + crowd(rng, 120, v07) + rng.randbytes(rng.randrange(100))
    right = has_right_checksum_07 if v07 else has_right_checksum
    expected = [i for i in range(len(data)) if is_frame_but_for_its_checksum(data, i, v07) and right(data, i)]
    assert expected
    for anchor in (-1, 0, expected[0] // 2):
        scan, found, at = scan_of(data, anchor, v07), [], max(anchor, 0)
        while (at := frames.find(scan, data, at, len(data), len(data))) >= 0:
            found.append(at)
            at += 1
        assert found == expected


@pytest.mark.parametrize("length", [0, 1, 7, 63, 64, 65, 200])
def test_zeros_at_the_start(length):
    assert frames.leading_zeros(bytes(length)) == length
    assert frames.leading_zeros(bytes(length) + b"\1" + bytes(70)) == length


@given(st.lists(st.one_of(st.integers(1, 200).map(bytes), st.binary(min_size=1, max_size=5)), max_size=10))
def test_zeros_in_long_runs(pieces):
    data = b"".join(pieces)
    assert frames.long_zeros(data, 64) == sum(map(len, re.findall(rb"\0{64,}", data)))


def wrong(frame):
    return frame[:-1] + bytes([frame[-1] ^ 1])


def test_frames_whose_crc_is_wrong_are_judged_by_where_they_lead():
    two = batch([record(0)], base_offset=1)
    three = batch([record(0)], base_offset=2)
    assert judged(wrong(GOOD) + two + wrong(three)) == (
        DONE,
        [(0, 0), (len(GOOD), 1), (len(GOOD + two), 0)],
        len(GOOD + two + three),
    )
    # To a header that goes on from it, although that is wrong too, and to one that does not.
    assert judged(wrong(GOOD) + wrong(two) + b"rubbish" * 9)[1:] == ([(0, 0)], len(GOOD))
    assert judged(wrong(two) + wrong(GOOD) + wrong(three))[1:] == ([], 0)
    # An intact batch inside speaks against the length.
    outer = batch([record(0, value=two)])
    assert judged(wrong(outer) + wrong(batch([record(0)], base_offset=5)) + b"x" * 99)[1:] == ([], 0)


def test_a_broken_message_of_07_at_the_end_has_no_offset_to_look_at():
    """It is shorter than the header of a batch: no byte behind the file is read."""
    broken = (6).to_bytes(4, "big") + bytes(5) + b"v"
    assert judged(broken + b"xyz", v07=True) == (IRREGULAR, [], 0)


def test_frames_are_judged_only_on_request():
    assert judged(wrong(GOOD) + GOOD, largest=0)[1:] == ([], 0)
    assert judged(wrong(GOOD) + GOOD, anchor=-1)[1:] == ([], 0)
    assert judged(wrong(GOOD) + GOOD, largest=len(GOOD) - 13)[1:] == ([], 0)
    assert judged(wrong(GOOD) + GOOD, largest=len(GOOD) - 12)[1:] == ([(0, 0), (len(GOOD), 1)], 2 * len(GOOD))


LOG = Path(__file__).resolve().parents[3] / "testdata/log-directories/4.3.1/logs/dplain-0/00000000000000000046.log"
HEAD = LOG.read_bytes()[:61]
FIRST = 46


@pytest.mark.parametrize(
    ("offset", "last_offset", "expected"),
    [
        (0, -1, True), (5, -1, True), (-1, -1, False),
        (5, 4, True), (5, 5, False), (5, 6, False),
        ((1 << 31) + 4, 5, True), ((1 << 31) + 5, 5, False),
    ],
)  # fmt: skip
def test_offsets_rise_by_no_more_than_a_batch_can_hold(offset: int, last_offset: int, expected: bool) -> None:
    assert offset_continues(offset, last_offset) is expected


@pytest.mark.parametrize(
    ("last_offset", "expected"), [(-1, True), (0, True), (FIRST - 1, True), (FIRST, False), (FIRST + 1, False)]
)
def test_a_real_header_continues_what_ends_below_it(last_offset: int, expected: bool) -> None:
    assert continues(HEAD, last_offset) is expected
