"""Index entries by the rules of LogSegment.append, OffsetIndex.append and TimeIndex.maybeAppend, batch by batch."""

from struct import iter_unpack

import pytest

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_WIDTH,
)
from kseg.kernel.state.indexing import DONE, NOT_RISING, OUTSIDE
from kseg.segment.writer import SegmentIndexes

BASE, INTERVAL = 1000, 4096
Batch = tuple[int, int, int]
"""Position, last offset and largest timestamp."""


def rows_of(batches: list[Batch]) -> memoryview:
    rows = int64s(len(batches) * BATCH_WIDTH)
    for i, (position, last, timestamp) in enumerate(batches):
        at = i * BATCH_WIDTH
        rows[at + BATCH_POSITION], rows[at + BATCH_LAST_OFFSET] = position, last
        rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_MAX_TIMESTAMP] = last, timestamp
    return rows


def built(batches: list[Batch], **rules: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]], tuple[int, int]]:
    """Entries of the offset and of the time index after `finish`, and what `take` returned."""
    indexes = SegmentIndexes(BASE, INTERVAL, **rules)
    taken = indexes.take(rows_of(batches), len(batches))
    indexes.finish()
    return list(iter_unpack(">ii", indexes.offsets)), list(iter_unpack(">qi", indexes.times)), taken


@pytest.mark.parametrize(("position", "is_indexed"), [(INTERVAL, False), (INTERVAL + 1, True)])
def test_an_entry_needs_more_than_the_interval_behind_the_one_before(position: int, is_indexed: bool) -> None:
    offsets, _, _ = built([(0, 1000, 5), (position, 1001, 5)])
    assert offsets == [(1, position)] * is_indexed
    second = INTERVAL + 1 + position
    offsets, _, _ = built([(INTERVAL + 1, 1000, 5), (second, 1001, 5)])
    assert offsets == [(0, INTERVAL + 1), *[(1, second)] * is_indexed]


@pytest.mark.parametrize(("last", "status"), [(1006, DONE), (1005, NOT_RISING), (1004, NOT_RISING)])
def test_offsets_of_entries_rise(last: int, status: int) -> None:
    batches = [(5000, 1005, 5), (10_000, last, 5)]
    offsets, _, taken = built(batches)
    assert taken == (status, 2 if status == DONE else 1)
    assert offsets == [(5, 5000), *[(last - BASE, 10_000)] * (status == DONE)]


@pytest.mark.parametrize(
    ("last", "status"),
    [(BASE, DONE), (BASE - 1, OUTSIDE), (BASE + (1 << 31) - 1, DONE), (BASE + (1 << 31), OUTSIDE)],
)
def test_an_offset_fits_into_31_bits_above_the_base(last: int, status: int) -> None:
    assert built([(0, last, 5)])[2] == (status, int(status == DONE))
    assert built([(0, last, 5)], takes_any=True)[2] == (DONE, 1)


def test_a_time_entry_has_the_largest_timestamp_so_far_and_its_offset() -> None:
    batches = [(0, 1000, 7), (5000, 1001, 6), (10_000, 1002, 7), (15_000, 1003, 9), (15_100, 1004, 12)]
    assert built(batches)[1] == [(7, 0), (9, 3), (12, 4)]
    assert built(batches, has_times=False)[1] == []


def test_the_last_time_entry_is_added_only_for_a_larger_timestamp() -> None:
    assert built([(5000, 1000, 7), (5100, 1001, 7)])[1] == [(7, 0)]
    assert built([(5000, 1000, 7), (5100, 1001, 8)])[1] == [(7, 0), (8, 1)]
    assert built([(0, 1000, -1)])[1] == []
