"""The information that the cleaner takes from a segment's side files."""

from pathlib import Path

import pytest

from kseg.cleaner.log import CleanerSegment
from kseg.formats.suffixes import LOG, TIME_INDEX

ENTRIES = [(1_790_000_000_000 + 7 * number, 3 * number) for number in range(5000)]


@pytest.mark.parametrize("count", [1, 2, 1365, 1366, 5000])
@pytest.mark.parametrize("unused_bytes", [0, 12 * 100, 10 << 20])
def test_largest_timestamp_is_that_of_the_last_entry_in_use(tmp_path: Path, count: int, unused_bytes: int) -> None:
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(b"".join(time.to_bytes(8, "big") + offset.to_bytes(4, "big") for time, offset in ENTRIES[:count]))
    with open(path, "r+b") as stream:
        stream.truncate(path.stat().st_size + unused_bytes)
    segment = CleanerSegment(0, 5_000_000, {LOG: str(tmp_path / "0.log"), TIME_INDEX: str(path)})
    assert segment.largest_timestamp() == ENTRIES[count - 1][0]


@pytest.mark.parametrize("size", [0, 11, 10 << 20])
def test_without_an_entry_the_time_of_the_file_counts(tmp_path: Path, size: int) -> None:
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(bytes(size))
    assert CleanerSegment(0, 5_000_000, {TIME_INDEX: str(path)}).largest_timestamp() == 5


def test_a_single_entry_of_zeros_is_timestamp_0(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(bytes(12))
    assert CleanerSegment(0, 5_000_000, {TIME_INDEX: str(path)}).largest_timestamp() == 0
