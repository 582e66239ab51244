"""Segments with holes: the reader does not read them, and says of them what it says of zeros that were written."""

import os
from pathlib import Path

import pytest

from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.extent import NEAR_BYTES, Extent, end_of_data, next_data
from kseg.stores.source import open_source, unreadable_ranges
from segment.segments import TESTDATA, entries

BLOCK = 4096
GIB = 1 << 30


def sparse(path: Path, size: int, *pieces: tuple[int, bytes]) -> Path:
    """A file of so many bytes, of which only the pieces were written."""
    with open(path, "wb") as file:
        for position, data in pieces:
            file.seek(position)
            file.write(data)
        file.truncate(size)
    return path


def items(path: Path) -> list[tuple[str, int, int, str]]:
    with open_source(str(path)) as source:
        return [
            (item.code, item.position, item.length, item.message)
            if isinstance(item, Damage)
            else ("batch", item.position, item.size, str(item.is_valid))
            for item in SegmentReader(source)
        ]


def huge(path: Path, *pieces: tuple[int, bytes]) -> Path:
    """A file of 600 GiB with these pieces."""
    if os.stat(sparse(path, 600 * GIB, *pieces)).st_blocks * 512 > 300 * GIB:
        pytest.skip("this file system keeps no holes")
    return path


@pytest.fixture
def batch() -> bytes:
    """The first batch of a log: it begins with eight zero bytes, its base offset."""
    found = entries((TESTDATA / "log-directories/4.3.1/logs/dplain-0" / f"{0:020}.log").read_bytes())[0]
    assert found[:8] == bytes(8)
    return found


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("hole", [3 << 20, (3 << 20) + BLOCK - 8, (3 << 20) + 100])
def test_a_hole_is_told_as_zeros_are(tmp_path: Path, batch: bytes, hole: int, before: bool) -> None:
    head = batch if before else b""
    start = -(-len(head) // BLOCK) * BLOCK + hole
    later = (5).to_bytes(8, "big") + batch[8:] if before else batch
    last = len(later) - len(later.lstrip(b"\0"))
    path = sparse(tmp_path / "a.log", start + len(later) + 5000, (0, head), (start + last, later[last:]))
    dense = tmp_path / "b.log"
    dense.write_bytes(path.read_bytes())
    found = items(path)
    assert found == items(dense)
    assert ("batch", start, len(later), "True") in found


def test_a_huge_hole_in_front_of_a_batch_and_behind_it(tmp_path: Path, batch: bytes) -> None:
    path = huge(tmp_path / "a.log", (300 * GIB, batch))
    assert [row[:3] for row in items(path)] == [
        ("zero-block", 0, 300 * GIB),
        ("batch", 300 * GIB, len(batch)),
        ("zero-block", 300 * GIB + len(batch), 300 * GIB - len(batch)),
    ]
    with open(path, "rb") as file:
        assert unreadable_ranges(Extent(file.fileno()), 600 * GIB) == []


def test_a_hole_behind_nonsense(tmp_path: Path) -> None:
    (row,) = items(huge(tmp_path / "a.log", (0, b"x" * 5000)))
    assert row[:3] == ("nonsense-block", 0, 600 * GIB)
    assert f"({600 * GIB - 5000} of them zero)" in row[3]


def test_the_end_of_the_data_is_found_within_its_bound(tmp_path: Path) -> None:
    size = 64 << 20
    path = sparse(tmp_path / "sparse", size, (0, b"x" * 4096), (20 << 20, b"y" * 4096))
    with path.open("rb") as file:
        if next_data(Extent(file.fileno()), 8 << 20, size) != 20 << 20:
            pytest.skip("the file system knows no holes")
        end = (20 << 20) + 4096
        assert end <= end_of_data(Extent(file.fileno()), 0, size) <= end + NEAR_BYTES
        assert end_of_data(Extent(file.fileno()), 30 << 20, size) == 30 << 20
        assert next_data(Extent(file.fileno()), 30 << 20, size) == size
        assert next_data(Extent(file.fileno()), 100, size) == 100


def test_a_full_file_has_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "full"
    path.write_bytes(b"x" * (3 << 20))
    with path.open("rb") as file:
        assert end_of_data(Extent(file.fileno()), 0, 3 << 20) == 3 << 20
        assert next_data(Extent(file.fileno()), 5, 3 << 20) == 5
    assert next_data(Extent(-1), 5, 9) == 5, "a buffer without a file has no holes"
