"""Spans of bytes that indexes give for ranges of offsets, times and bytes, against a search of plain lists."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.segment.files import LAST_OFFSET, SegmentFile, segment_file
from kseg.segment.seek import BATCHES_BEHIND, CHAINED, ByteSpan, indexed_span, span_of_bytes

BASE, SIZE = 100, 5000
OFFSETS = [(3 + 5 * i, 100 + 60 * i) for i in range(12)]
"""Entries of an offset index: relative offsets and positions."""
TIMES = [(1000 + 10 * i, 3 + 5 * i) for i in range(12)]
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def write(
    folder: Path, offsets: list[tuple[int, int]] | None, times: list[tuple[int, int]] | None = None, base: int = BASE
) -> SegmentFile:
    path = folder / f"{base:020}.log"
    path.touch()
    for entries, suffix, form in ((offsets, ".index", ">ii"), (times, ".timeindex", ">qi")):
        path.with_suffix(suffix).unlink(missing_ok=True)
        if entries is not None:
            path.with_suffix(suffix).write_bytes(b"".join(struct.pack(form, *entry) for entry in entries))
    return segment_file(str(path))


@pytest.mark.parametrize(
    ("first", "last", "size", "expected"),
    [
        (BASE, BASE, SIZE, (0, OFFSETS[BATCHES_BEHIND][1], 0)),
        (BASE + 2, BASE + 2, SIZE, (0, OFFSETS[BATCHES_BEHIND][1], 0)),
        (BASE + 3, BASE + 3, SIZE, (100, OFFSETS[BATCHES_BEHIND + 1][1], 0)),
        (BASE + 7, BASE + 7, SIZE, (100, OFFSETS[BATCHES_BEHIND + 1][1], 0)),
        (BASE + 8, BASE + 8, SIZE, (160, OFFSETS[BATCHES_BEHIND + 2][1], 0)),
        (BASE + 3 + 5 * CHAINED, BASE + 30, SIZE, (100 + 60 * CHAINED, OFFSETS[5 + BATCHES_BEHIND + 1][1], 100)),
        (BASE + 999, BASE + 999, SIZE, (760, SIZE, 760 - 60 * CHAINED)),
        (0, BASE + 3, 300, (0, min(300, OFFSETS[BATCHES_BEHIND + 1][1]), 0)),
        (0, LAST_OFFSET, SIZE, (0, SIZE, 0)),
    ],
)
def test_offsets(first: int, last: int, size: int, expected: tuple[int, int, int], tmp_path: Path) -> None:
    assert indexed_span(write(tmp_path, OFFSETS), size, first, last) == ByteSpan(*expected)


@pytest.mark.parametrize(
    ("earliest", "start"), [(0, 0), (1000, 0), (1001, 100), (1010, 100), (1011, 160), (1110, 700), (1111, 760)]
)
def test_times(earliest: int, start: int, tmp_path: Path) -> None:
    file = write(tmp_path, OFFSETS, TIMES)
    assert indexed_span(file, SIZE, 0, LAST_OFFSET, earliest).start == start
    # The later one of both limits holds.
    assert indexed_span(file, SIZE, BASE + 13, LAST_OFFSET, earliest).start == max(start, 220)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, SIZE, (0, SIZE, 0)), (99, 100, (0, 100, 0)), (100, 100, (100, 100, 0)), (100, 101, (100, 160, 0)),
        (159, 160, (100, 160, 0)), (160, 161, (160, 220, 0)), (400, 400, (400, 400, 160)), (760, 761, (760, SIZE, 520)),
    ],
)  # fmt: skip
def test_bytes(start: int, end: int, expected: tuple[int, int, int], tmp_path: Path) -> None:
    assert span_of_bytes(write(tmp_path, OFFSETS), SIZE, start, end) == ByteSpan(*expected)


def test_without_an_index_all_bytes_are_read(tmp_path: Path) -> None:
    for offsets in (None, []):
        file = write(tmp_path, offsets, TIMES)
        assert indexed_span(file, SIZE, BASE + 50, BASE + 51, 1100) == ByteSpan(0, SIZE)
        assert span_of_bytes(file, SIZE, 700, 701) == ByteSpan(0, SIZE)


@IN_FOLDER
@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=12),
    first=st.integers(0, 60), width=st.integers(0, 30), size=st.integers(1, 500), earliest=st.integers(0, 80),
)  # fmt: skip
def test_any_index(
    tmp_path: Path, steps: list[tuple[int, int, int]], first: int, width: int, size: int, earliest: int
) -> None:
    offsets, times, relative, position, time = [], [], 0, 0, 0
    for offset_step, bytes_step, time_step in steps:
        relative, position, time = relative + offset_step, position + bytes_step, time + time_step
        offsets.append((relative, position))
        times.append((time, relative))
    file, last = write(tmp_path, offsets, times, base=7), first + width

    def place(i: int) -> int:
        return offsets[i][1] if i >= 0 else 0

    def end(i: int) -> int:
        return min(offsets[i][1], size) if i < len(offsets) else size

    before = [entry for entry in times if entry[0] < earliest]
    least = max(first, 7 + before[-1][1]) if before else first
    chosen = sum(7 + entry[0] <= least for entry in offsets) - 1
    behind = sum(7 + entry[0] <= last for entry in offsets) + BATCHES_BEHIND
    expected = ByteSpan(place(chosen), end(behind), place(chosen - CHAINED))
    assert indexed_span(file, size, first, last, earliest) == expected
    of_bytes = sum(entry[1] <= first for entry in offsets) - 1
    after = sum(entry[1] < last for entry in offsets)
    assert span_of_bytes(file, size, first, last) == ByteSpan(place(of_bytes), end(after), place(of_bytes - CHAINED))
