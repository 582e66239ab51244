"""Counting by the chunk against counting one by one."""

import pytest

from kernel.rendering import batch, frames, int64s, message, record
from kseg.kernel.state import tally
from kseg.kernel.state.tally import SIZE_WIDTH, SIZES, TABLE, TALLY_WIDTH


def fresh_distinct(table=1 << 12):
    buffer = int64s(TABLE + table)
    buffer[1], buffer[3] = table // 2, table - 1
    return buffer


def count(data, found=None, row_count=64, v07=False):
    """(number of the frame it stopped at, counters by name, distribution heads by name, keys, producers)."""
    counted, producers, keys = int64s(TALLY_WIDTH), fresh_distinct(), fresh_distinct()
    found = frames(data) if found is None else found
    stopped = tally.add_frames(
        data, found, 0, len(found) // 4, v07, counted, producers, keys, int64s(10 * row_count), int64s(256)
    )
    sizes = {}
    for index, name in enumerate(tally.DISTRIBUTIONS):
        at = SIZES + index * SIZE_WIDTH
        sizes[name] = tuple(counted[at : at + 4])
    return stopped, dict(zip(tally.COUNTERS, counted, strict=False)), sizes, keys[0], producers[0]


def tallied(data, row_count=64, headers=4096):
    counted = int64s(TALLY_WIDTH)
    found = frames(data)
    seen = [fresh_distinct(), fresh_distinct()]
    buffers = counted, *seen, int64s(10 * row_count), int64s(4 * headers)
    assert tally.add_frames(data, found, 0, len(found) // 4, False, *buffers) == len(found) // 4
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
    stopped, counted, _, _, _ = count(batch([record(0)]) + data, row_count=8)
    assert stopped == 1
    assert (counted["batches"], counted["records"]) == (1, 1)


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
