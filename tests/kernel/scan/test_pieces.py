"""Keys of batches, and pieces, against the same rules written with sets and sorted lists."""

import struct
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.batch_rows import batch_rows
from kernel.rendering import batch, int64s, record
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
)
from kseg.kernel.scan import frames
from kseg.kernel.scan.frames import ONLY_USUAL, FrameScan
from kseg.kernel.scan.pieces import (
    MAY_BE_DIRECTORY,
    MAY_BE_FILE,
    KeyIndex,
    breaks,
    common_prefix,
    contradict,
    mark_blocks,
)

BLOCK = 512
LARGEST = 1 << 56


def v2_rows(seed: int, count: int) -> list[list[int]]:
    table = batch_rows(Random(seed), 3 * count)
    rows = [table[at : at + BATCH_WIDTH] for at in range(0, len(table), BATCH_WIDTH)]
    return [row for row in rows if row[BATCH_MAGIC] == 2][:count]


def flat(rows: list[list[int]]) -> memoryview:
    return int64s([value for row in rows for value in row])


def key(row: list[int]) -> tuple[int, ...]:
    return (*row[4:6], row[7], row[9] if row[11] < 0 else row[11], row[10], row[12])


@pytest.mark.parametrize("seed", range(5))
def test_each_key_is_known_from_its_first_batch_on(seed: int) -> None:
    rows = v2_rows(seed, 400)
    Random(seed).shuffle(rows)
    rows = rows[:300] + rows[:40] + rows[300:]
    index, table, i = KeyIndex(int64s([0] * 1024), seed), flat(rows), 0
    first: dict[tuple[int, ...], int] = {}
    while i < len(rows):
        found = index.add(b"", 0, table, i, len(rows), 0)
        for number in range(i, found):
            assert first.setdefault(key(rows[number]), number) == number
        if found < len(rows):
            assert index.alike(b"", 0, table, found) == [first[key(rows[found])]]
        i = found + 1
    assert len(first) == len(set(map(key, rows)))


def test_rows_far_behind_a_known_batch_are_not_read_for_it() -> None:
    """A piece whose batches are all known is read once, not once for each of them."""
    rows = v2_rows(1, 600)
    index = KeyIndex(int64s([0] * 1024), 1)
    assert index.add(b"", 0, flat(rows), 0, 1, 0) == 1
    rows[1][BATCH_MAGIC] = 0  # outside the buffer
    assert index.add(b"", 0, flat(rows), 0, len(rows), 0) == 0
    with pytest.raises(ValueError, match="outside"):
        index.add(b"", 0, flat(rows), 1, len(rows), 0)


def test_versions_stand_beside_each_other_in_their_order() -> None:
    table = flat(v2_rows(1, 1))
    index = KeyIndex(int64s([0] * 8), 5)
    assert index.add(b"", 0, table, 0, 1, 7) == 1
    for number in (9, 3):
        assert index.add(b"", 0, table, 0, 1, number) == 0
        index.add(b"", 0, table, 0, 1, number, beside=True)
    assert index.alike(b"", 0, table, 0) == [7, 9, 3]


def test_a_full_table_ends_the_search() -> None:
    rows = v2_rows(2, 20)
    index = KeyIndex(int64s([0] * 4), 5)
    index.add(b"", 0, flat(rows), 0, 20, 0)
    assert len([row for i, row in enumerate(rows) if index.alike(b"", 0, flat(rows), i)]) >= 4


@pytest.mark.parametrize(
    ("buffer", "origin", "stop"), [(bytes(60), 100, 1), (bytes(60), 61, 1), (bytes(13), 50, 1), (bytes(99), 50, 2)]
)
def test_messages_outside_the_buffer_are_refused(buffer: bytes, origin: int, stop: int) -> None:
    row = [60, 30, 1, 1, 5, 5, *[-1] * 10]
    with pytest.raises(ValueError, match="buffer"):
        KeyIndex(int64s([0] * 4), 5).add(buffer, origin, int64s(row), 0, stop, 0)


def offsets(row: list[int]) -> tuple[int, int]:
    first, last = row[BATCH_FIRST_OFFSET], row[BATCH_LAST_OFFSET]
    return (last if first < 0 else first), last


def is_of_a_log(row: list[int]) -> bool:
    """Only a compressed message of v0 or v1 may have no first offset."""
    first, last = offsets(row)
    return (row[BATCH_MAGIC] < 2 or row[BATCH_FIRST_OFFSET] >= 0) and 0 <= first <= last <= LARGEST


@pytest.mark.parametrize("seed", range(5))
def test_pieces_begin_where_batches_do_not_go_on(seed: int) -> None:
    chance = Random(seed)
    rows = v2_rows(seed, 200)
    for row, before in zip(rows[1:], rows[:-1], strict=True):
        row[BATCH_POSITION] = before[BATCH_POSITION] + before[BATCH_SIZE]
        row[BATCH_POSITION] += chance.choice((0,) * 9 + (-row[BATCH_POSITION] % BLOCK, 1))
    for row in chance.sample(rows, 60):
        row[4:6] = chance.choice(([LARGEST, LARGEST + 1], [LARGEST, LARGEST], [-5, 3], [9, 8], [-2, -1]))
    for at in range(20, 200, 40):  # batches that no log can hold, which lie beside each other
        for row in rows[at : at + 4]:
            row[4:6] = [LARGEST + 1 + chance.randrange(9), LARGEST + 10]
    expected, kept = [], 0
    for i, (before, row) in enumerate(pairwise(rows), 1):
        is_near = row[BATCH_POSITION] == before[BATCH_POSITION] + before[BATCH_SIZE]
        (first, _), (_, last) = offsets(row), offsets(before)
        goes_on = is_of_a_log(before) == is_of_a_log(row)
        if is_of_a_log(before) and is_of_a_log(row):
            is_missing = first != last + 1 and row[BATCH_FIRST_OFFSET] >= 0
            goes_on = first > last and row[BATCH_LEADER_EPOCH] >= before[BATCH_LEADER_EPOCH]
            goes_on = goes_on and not (is_missing and row[BATCH_POSITION] % BLOCK == 0)
        else:
            kept += is_near and goes_on
        if not (is_near and goes_on):
            expected.append(i)
    out = int64s([0] * len(rows))
    found = breaks(flat(rows), len(rows), BLOCK, LARGEST, out)
    assert 0 < found < len(rows) - 1
    assert kept > 0
    assert out[:found].tolist() == expected


def test_batches_that_no_log_can_hold_stay_together() -> None:
    """They neither continue those of a log nor make a piece each, however their offsets and leader epochs change."""
    rows = v2_rows(1, 7)
    firsts = 5, LARGEST + 7, LARGEST + 1, -3, 9, 10, LARGEST
    for i, (row, first) in enumerate(zip(rows, firsts, strict=True)):
        row[:2], row[4:6], row[BATCH_LEADER_EPOCH] = [i * BLOCK, BLOCK], [first, first], 9 - i if i < 4 else 9
    out = int64s([0] * 7)
    assert out[: breaks(flat(rows), 7, BLOCK, LARGEST, out)].tolist() == [1, 4, 6]
    assert out[: breaks(flat(rows), 7, BLOCK, LARGEST - 1, out)].tolist() == [1, 4, 6]
    assert out[: breaks(flat(rows), 7, BLOCK, -1, out)].tolist() == []


def test_pieces_exclude_each_other_unless_what_overlaps_may_be_versions() -> None:
    rows = v2_rows(3, 1)
    (row,) = rows
    row[4:6], row[13] = [100, 104], 5
    for change, is_one in (({}, True), ({13: 3}, True), ({7: row[7] + 1}, False), ({9: row[9] + 1}, False)):
        other = [change.get(column, value) for column, value in enumerate(row)]
        assert contradict(flat(rows), 0, 1, flat([other]), 0, 1) is not is_one
    apart = [*row[:4], 105, 109, *row[6:]]
    assert not contradict(flat(rows), 0, 1, flat([apart, row]), 0, 2)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 9000])
def test_long_common_prefixes_end_where_bytes_differ(size: int) -> None:
    one = Random(size).randbytes(size)
    assert common_prefix(one, one) == common_prefix(one + b"a", one + b"b") == common_prefix(one, one + b"b") == size


@given(*[st.binary(max_size=40)] * 3)
def test_a_common_prefix_ends_before_the_first_byte_that_differs(prefix: bytes, one: bytes, other: bytes) -> None:
    a, b = prefix + one, prefix + other
    expected = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def test_a_search_leaves_out_larger_offsets() -> None:
    data = batch([record(0)], base_offset=1 << 57) + b"x" + batch([record(0)], base_offset=1 << 56)
    scan = FrameScan()
    assert frames.find(scan, data, 0, len(data), len(data)) == 0
    scan.largest_offset = 1 << 56
    assert frames.find(scan, data, 0, len(data), len(data)) == len(data) // 2 + 1


@pytest.mark.parametrize(
    ("unusual", "usual"),
    [
        ({"producer": 1 << 48}, {"producer": (1 << 48) - 1}),
        ({"attributes": 0x1000}, {"attributes": 0x0FF0}),
        ({"count": 2, "last_delta": 0}, {"count": 2, "last_delta": 1}),
    ],
)
def test_a_search_may_leave_out_unusual_headers(unusual: dict[str, int], usual: dict[str, int]) -> None:
    data = batch([record(0)], **unusual) + batch([record(0)], **usual)
    assert frames.find(FrameScan(), data, 0, len(data), len(data)) == 0
    assert frames.find(FrameScan(options=ONLY_USUAL), data, 0, len(data), len(data)) == len(data) // 2


BEGINNINGS = {
    b"0\n": MAY_BE_FILE,
    b"version: 0": MAY_BE_FILE,
    b"#Mon": MAY_BE_FILE,
    b"XDB3": MAY_BE_FILE,
    b"IN\0\0": MAY_BE_FILE,
    b"\0\1": MAY_BE_FILE,
    struct.pack(">iiiiii", 1, 0, 2, 1, 3, 2): MAY_BE_FILE,
    struct.pack(">iiiiii", 1, 0, 2, 1, 2, 2): 0,
    struct.pack(">qiqiqi", 1 << 40, 0, 2 << 40, 1, 3 << 40, 2): MAY_BE_FILE,
    struct.pack(">qiqiqi", 1 << 40, 0, 2 << 40, 1, 3 << 40, 1): 0,
    struct.pack("<IHBB", 2, 12, 1, 2) + b".": MAY_BE_DIRECTORY,
    struct.pack("<IHBB", 2, 4096, 5, 2) + b"t0-10": MAY_BE_DIRECTORY,
    struct.pack("<IHBB", 2, 12, 5, 2) + b"t0-10": 0,
    b"text": 0,
    b"": 0,
}


@pytest.mark.parametrize("step", [64, 512])
def test_blocks_that_may_begin_files_or_directories(step: int) -> None:
    data, marks = b"".join(head.ljust(step, b"\0") for head in BEGINNINGS), int64s([0] * 2 * (len(BEGINNINGS) + 1))
    found = marks[: mark_blocks(data, len(data), step, marks)].tolist()
    expected = {i * step: mark for i, mark in enumerate(BEGINNINGS.values()) if mark}
    assert dict(zip(found[::2], found[1::2], strict=True)) == expected


def test_a_block_that_ends_early_may_be_anything() -> None:
    marks = int64s([0] * 4)
    assert marks[: mark_blocks(b"text", 4, 512, marks)].tolist() == [0, MAY_BE_FILE | MAY_BE_DIRECTORY]
