"""Offsets by headers: which batches give them, ranges of them, and columns of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, header_rows, int64s, message, record
from kseg.kernel.layout.rows import BATCH_STATE
from kseg.kernel.records.columns import HeaderOffsets

ALL_TIMES = (-(1 << 63), (1 << 63) - 1)
CONTROL, ZSTD = 32, 4


def offsets_of(data, first=ALL_TIMES[0], last=ALL_TIMES[1], capacity=1000, limit=1 << 20):
    """Offsets up to the first batch that does not give its own, and this batch."""
    rows, count = header_rows(data)
    progress, wanted, out, found = HeaderOffsets(limit), int64s([first, last, *ALL_TIMES]), int64s(capacity), []
    while True:
        end = progress.fill(rows, count, wanted, out, 0)
        found += out[:end].tolist()
        if end < capacity:
            return found, progress.batch


def plain(base, size, **fields):
    return batch([record(delta) for delta in range(size)], base_offset=base, **fields)


def test_a_batch_with_as_many_records_as_offsets_gives_them():
    assert offsets_of(plain(5, 3) + plain(100, 1)) == ([5, 6, 7, 100], 2)
    unpacked = batch([b"neither zstd nor records"], attributes=ZSTD, base_offset=7, count=4, last_delta=3)
    assert offsets_of(unpacked) == ([7, 8, 9, 10], 1)


def test_control_batches_have_no_records():
    assert offsets_of(plain(0, 2) + plain(2, 1, attributes=CONTROL) + plain(3, 1)) == ([0, 1, 3], 3)


@pytest.mark.parametrize(
    "other",
    [
        plain(2, 3, last_delta=5),
        plain(2, 3, count=2),
        batch([], base_offset=2, last_delta=4, count=0),
        plain(-5, 3),
        plain((1 << 63) - 2, 4),
        plain(2, 3, count=1000, last_delta=999),
        batch([b"x" * 50], attributes=ZSTD, base_offset=2, count=1 << 30, last_delta=(1 << 30) - 1),
        batch([b"x" * 50], attributes=6, base_offset=2, count=2, last_delta=1),
        message(2, 1, b"key", b"value"),
    ],
    ids=["gap", "count", "empty", "negative", "overflow", "claim", "zstd-claim", "codec", "v1"],
)
def test_other_batches_are_to_be_read(other):
    rows, count = header_rows(plain(0, 2) + other + plain(50, 1))
    assert count == 3
    progress, wanted, out = HeaderOffsets(1 << 20), int64s([*ALL_TIMES, *ALL_TIMES]), int64s(10)
    assert progress.fill(rows, count, wanted, out, 0) == 2
    assert progress.batch == 1
    assert progress.next_given(rows, count) == 2
    progress.batch = 2
    assert progress.fill(rows, count, wanted, out, 2) == 3
    assert out[:3].tolist() == [0, 1, 50]
    assert progress.batch == progress.next_given(rows, count) == count


def test_a_batch_with_a_wrong_checksum_is_to_be_read():
    rows, count = header_rows(plain(0, 2))
    rows[BATCH_STATE] = 0
    assert HeaderOffsets(1 << 20).fill(rows, count, int64s([*ALL_TIMES, *ALL_TIMES]), int64s(9), 0) == 0
    assert HeaderOffsets(1 << 20).next_given(rows, count) == count


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    first=st.integers(-3, 40),
    size=st.integers(-1, 40),
    capacity=st.integers(1, 12),
)
def test_ranges_are_kept_in_columns_of_any_size(counts, first, size, capacity):
    data, everything, base = b"", [], 0
    for count in counts:
        data += plain(base, count)
        everything += range(base, base + count)
        base += count + 2
    expected = [offset for offset in everything if first <= offset <= first + size]
    assert offsets_of(data, first, first + size, capacity)[0] == expected
