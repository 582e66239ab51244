import errno
import os
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from kseg.errors import UnsupportedError
from kseg.formats.rows import int64s
from kseg.kernel import COMPILED
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_WIDTH
from kseg.segment import slices
from kseg.stores.extent import Extent
from kseg.stores.windows import Windows, next_frame
from segment.long_log import repeated
from segment.segments import TESTDATA

SEEDS = TESTDATA / "speed"
pytestmark = pytest.mark.skipif(not COMPILED, reason="an interpreted kernel reads no parts")


def grown(name: str, mib: int, folder: Path) -> Path:
    """A segment of real batches of a kind."""
    return repeated((SEEDS / f"{name}.log").read_bytes(), mib << 20, folder / f"{0:020}.log")


def positions(extent: Extent, start: int, end: int) -> tuple[int, list[int]]:
    windows, found = Windows(extent, start, end), []
    for rows, _, _ in windows.headers(int64s):
        found += rows[BATCH_POSITION::BATCH_WIDTH].tolist()
    return windows.position, found


@pytest.mark.parametrize("name", ["1k", "100b", "tiny"])
@pytest.mark.parametrize("jobs", [2, 3])
def test_parts_hold_what_one_pass_finds(name: str, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part is used, too: no other test sees whether a segment is read in parts or in one pass."""
    monkeypatch.setattr(slices, "PART_BYTES", 200_000)
    path = grown(name, 3, tmp_path)
    size = path.stat().st_size
    extent = Extent(os.open(path, os.O_RDONLY))
    parts = [*slices.in_parts(extent, 0, size, jobs, lambda: lambda start, stop: positions(extent, start, stop))]
    assert (size, [at for _, found in parts for at in found]) == positions(extent, 0, size)
    assert parts[-1][0] == size
    assert len(parts) > 3
    extent.close()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "lost"), UnsupportedError("not read")])
@pytest.mark.parametrize("is_needed", [False, True])
def test_only_errors_of_needed_parts_are_raised(
    error: Exception, is_needed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "PART_BYTES", 200_000)
    path = grown("tiny", 1, tmp_path)
    size = path.stat().st_size
    extent = Extent(os.open(path, os.O_RDONLY))

    def read(start: int, stop: int) -> tuple[int, None]:
        if start:
            raise error
        return stop if is_needed else size, None

    parts = slices.in_parts(extent, 0, size, 2, lambda: read)
    reached, _ = next(parts)
    with pytest.raises(type(error)) if is_needed else nullcontext():
        assert next(parts, None) is None
    assert (reached < size) is is_needed
    extent.close()


def test_a_search_for_a_cut_ends_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "late.log"
    path.write_bytes(bytes(300_000) + (SEEDS / "tiny.log").read_bytes())
    extent, size = Extent(os.open(path, os.O_RDONLY)), path.stat().st_size
    assert [next_frame(extent, 0, size, stop) for stop in (None, 300_000, 300_001)] == [300_000, -1, 300_000]
    extent.close()


def test_many_threads_read_smaller_parts_ahead(tmp_path: Path) -> None:
    path = grown("tiny", 40, tmp_path)
    size = path.stat().st_size
    extent = Extent(os.open(path, os.O_RDONLY))
    for jobs in (2, 16, 100):
        found = list(slices._ranges(extent, 0, size, jobs))
        assert found[0][0] == 0
        assert found[-1][1] == size
        assert all(end == start for (_, end), (start, _) in pairwise(found))
        largest = max(end - start for start, end in found)
        assert largest * jobs * slices.TASKS_AHEAD < slices.AHEAD_BYTES + 2 * jobs * slices.LAST_PART_BYTES * 2
    extent.close()
