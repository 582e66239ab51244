"""Counts of records by the chunk against counting one by one, and counts of batches by format and codec."""

import pytest

from kernel.rendering import batch, frames, int64s, message, record
from kseg.kernel.layout.rows import BATCH_ATTRIBUTES, BATCH_MAGIC, BATCH_SIZE, BATCH_STATE, BATCH_WIDTH
from kseg.kernel.state import tally
from kseg.kernel.state.tally import CODECS, FORMS_WIDTH, SIZE_WIDTH, SIZES, TABLE, TALLY_WIDTH, count_forms


def fresh_distinct(table=1 << 12):
    buffer = int64s(TABLE + table)
    buffer[1], buffer[3] = table // 2, table - 1
    return buffer


def tallied(data, row_count=64, left=0):
    """The tally of all frames but the last ``left``, and its counters by name."""
    counted, found = int64s(TALLY_WIDTH), frames(data)
    buffers = counted, fresh_distinct(), fresh_distinct(), int64s(10 * row_count), int64s(4 * 4096)
    assert tally.add_frames(data, found, 0, len(found) // 4, False, *buffers) == len(found) // 4 - left
    return counted, dict(zip(tally.COUNTERS, counted, strict=False))


def test_header_keys_are_counted_with_their_bytes():
    long = b"x" * 63 + "é".encode() * 40
    heads = [(b"trace", b"12345678"), (b"", None), (long, b""), (b"trace", b"")]
    data = batch([record(0, key=b"k", value=b"", headers=heads), record(1, value=b"", headers=heads[:1])], 7)
    counted, count = tallied(data)
    assert sorted(tally.header_keys(counted)) == [
        (b"", 0, 1, 0), (b"trace", 5, 3, 31), (long[:64], len(long), 1, len(long)),
    ]  # fmt: skip
    assert (count["headers"], count["with_headers"], count["header_bytes"]) == (5, 2, 31 + len(long))
    assert (count["empty_values"], count["empty_keys"], count["header_keys_held"]) == (2, 0, 3)
    assert tally.largest_of(counted, True) == [(1 + 18 + len(long), 7), (13, 8)]


def test_header_keys_beyond_the_cap_are_only_counted():
    heads = [(b"%d" % number, b"v") for number in range(1030)]
    counted, count = tallied(batch([record(i, headers=heads) for i in range(2)]))
    assert sorted(name for name, _, _, _ in tally.header_keys(counted)) == sorted(key for key, _ in heads[:1024])
    assert {number for _, _, number, _ in tally.header_keys(counted)} == {2}
    assert (count["header_keys_held"], count["other_headers"], count["other_header_bytes"]) == (1024, 12, 60)


def test_the_largest_keys_and_records_keep_their_offsets():
    sizes = [3, 9, 1, 9, 7, 2, 8, 0]
    counted, _ = tallied(batch([record(i, key=b"k" * size, value=b"vv") for i, size in enumerate(sizes)], 100))
    assert tally.largest_of(counted, False) == [(9, 101), (9, 103), (8, 106), (7, 104), (3, 100)]
    assert tally.largest_of(counted, True) == [(11, 101), (11, 103), (10, 106), (9, 104), (5, 100)]


def test_the_least_base_timestamp_is_that_of_headers_without_horizon():
    for attributes, expected in ((0, (1, 1000)), (64, (0, 0))):
        _, count = tallied(batch([record(0, 5), record(1, -9)], attributes=attributes))
        assert (count["with_base_timestamp"], count["least_base_timestamp"]) == expected


@pytest.mark.parametrize(
    "data",
    [
        batch([b"x" * 20], attributes=1),
        batch([record(0), b"\xff" * 9]),
        batch([record(i) for i in range(9)]),
        batch([record(0)])[:-1] + b"\x7f",
        message(0, 1, None, b"v", attributes=2),
    ],
    ids=["compressed", "undecodable", "more than rows", "wrong CRC", "compressed message"],
)
def test_what_is_not_plain_is_left_to_the_caller_uncounted(data):
    _, count = tallied(batch([record(0)]) + data, row_count=8, left=1)
    assert (count["batches"], count["records"]) == (1, 1)


def test_a_quantile_is_at_most_a_64th_off():
    counted = int64s(TALLY_WIDTH)
    for size in [0, 1, 63, 64, 65, 127, 128, 1000, 123456, (1 << 31) - 1, (1 << 62) + 12345]:
        before = list(counted[SIZES + 4 : SIZES + SIZE_WIDTH])
        tally.add_size(counted, 0, size)
        after = list(counted[SIZES + 4 : SIZES + SIZE_WIDTH])
        (bucket,) = [i for i in range(len(before)) if before[i] != after[i]]
        power = max(bucket // 32 - 1, 0)
        least = (bucket - 32 * power) << power
        assert least <= size < least + (1 << power)
        assert (1 << power) <= max(1, least / 32)
    assert counted[SIZES] == 11


def test_different_values_are_counted_exactly_up_to_the_cap():
    found = fresh_distinct(1 << 8)
    values = [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, *(b"key-%d" % i for i in range(123))]
    for value in values * 2:
        tally.add(found, value)
    assert (found[0], found[2]) == (128, 0)
    tally.add(found, b"one more")
    assert (found[0], found[2]) == (128, 1)


def counted(batches: list[tuple[int, int, int, int]], is_07: bool = False) -> dict[tuple[int, int], tuple[int, int]]:
    """``batches``: magic, attributes, size, state. Returns batches and bytes by format and codec."""
    rows, found = int64s(max(1, len(batches)) * BATCH_WIDTH), int64s(FORMS_WIDTH)
    for i, (magic, attributes, size, state) in enumerate(batches):
        for column, value in (
            (BATCH_MAGIC, magic), (BATCH_ATTRIBUTES, attributes), (BATCH_SIZE, size), (BATCH_STATE, state),
        ):  # fmt: skip
            rows[i * BATCH_WIDTH + column] = value
    count_forms(rows, len(batches), is_07, found)
    pairs = {(i // CODECS, i % CODECS): (found[2 * i], found[2 * i + 1]) for i in range(FORMS_WIDTH // 2)}
    return {form: numbers for form, numbers in pairs.items() if any(numbers)}


def test_batches_are_counted_by_format_and_codec() -> None:
    zstd_transactional = 4 | 16
    batches = [(2, zstd_transactional, 100, 1), (2, 4, 50, 3), (1, 0, 30, 1), (0, 1, 20, 1)]
    assert counted(batches) == {(2, 4): (2, 150), (1, 0): (1, 30), (0, 1): (1, 20)}
    assert counted([(1, 2, 20, 1), (0, 0, 10, 1)], is_07=True) == {(3, 2): (1, 20), (3, 0): (1, 10)}


def test_batches_that_are_not_intact_do_not_count() -> None:
    assert counted([(2, 0, 100, 0), (9, 0, 100, 1), (-1, 0, 100, 1)]) == {}
    assert counted([]) == {}
