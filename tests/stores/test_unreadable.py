"""Bytes that the disk cannot read: they are reported as damage of their own kind, and all others are read."""

from itertools import cycle
from pathlib import Path

import pytest

import kseg
from failing_disk import PAGE, FailDisk
from kseg.cleaner.log import DamagedError, windows
from kseg.segment.items import Damage
from kseg.segment.survey import DEEP, FULL, QUICK, HeaderRows, open_survey
from kseg.stores import source
from kseg.stores.extent import Extent
from kseg.stores.source import overlapping, read_around, unreadable_ranges
from kseg.stores.windows import Buffers
from segment.segments import TESTDATA, entries

SEGMENT = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020}.log"


def segment_of(path: Path, size: int) -> list[tuple[int, int]]:
    """Writes intact batches of about ``size`` bytes, with rising offsets; returns the start and end of each."""
    taken, at, extents, offset = [], 0, [], 0
    for batch in cycle(entries(SEGMENT.read_bytes())):
        taken.append(offset.to_bytes(8, "big") + batch[8:])  # the checksum does not cover the offset
        offset += int.from_bytes(batch[23:27], "big") + 1
        extents.append((at, at + len(batch)))
        at += len(batch)
        if at >= size:
            break
    path.write_bytes(b"".join(taken))
    return extents


def lost_extent(extents: list[tuple[int, int]], start: int, stop: int) -> tuple[int, int]:
    """Returns the range from the start of the first batch with bytes in the range to the end of the last."""
    hit = [(first, behind) for first, behind in extents if first < stop and behind > start]
    return hit[0][0], hit[-1][1]


@pytest.mark.parametrize("size", [12_000, 300_000, 20 << 20])
@pytest.mark.parametrize("pages", [(1, 2), (2, 4)])
def test_items_tile_around_bad_bytes(size: int, pages: tuple[int, int], path: Path, fail_disk: FailDisk) -> None:
    if size > 1 << 20 and not kseg.kernel.COMPILED:
        pytest.skip("as many bytes take the interpreted kernel minutes")
    extents = segment_of(path, size)
    start, stop = pages[0] * PAGE, pages[1] * PAGE
    fail_disk(path, start, stop)
    items = list(kseg.open(path))
    assert [item.position for item in items] == [0, *[item.end for item in items][:-1]]
    assert items[-1].end == path.stat().st_size
    damage = [item for item in items if isinstance(item, kseg.Damage)]
    lost = lost_extent(extents, start, stop)
    assert [(item.code, item.position, item.end) for item in damage] == [("unreadable-bytes", *lost)]
    assert f"{stop - start} bytes could not be read (bytes {start} to {stop - 1})" in damage[0].message
    kept = [(item.position, item.end) for item in items if not isinstance(item, kseg.Damage)]
    assert kept == [extent for extent in extents if extent[1] <= lost[0] or extent[0] >= lost[1]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [QUICK, FULL, DEEP])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_survey_reads_around_unreadable_bytes(level: int, jobs: int, path: Path, fail_disk: FailDisk) -> None:
    extents = segment_of(path, 20 << 20 if kseg.kernel.COMPILED else 40_000)
    fail_disk(path, 3 * PAGE, 4 * PAGE)
    with open_survey(str(path), level, jobs=jobs) as survey:
        items = list(survey)
        assert survey.source.unreadable == [(3 * PAGE, 4 * PAGE)]
    lost = lost_extent(extents, 3 * PAGE, 4 * PAGE)
    damage = [item for item in items if isinstance(item, Damage)]
    assert [(item.code, item.position, item.end) for item in damage] == [("unreadable-bytes", *lost)]
    kept = [extent for extent in extents if extent[1] <= lost[0] or extent[0] >= lost[1]]
    assert sum(item.count for item in items if isinstance(item, HeaderRows)) == len(kept)


@pytest.mark.parametrize("size", [12_000, 300_000])
def test_what_a_second_read_gives_is_no_damage(size: int, path: Path, fail_disk: FailDisk) -> None:
    extents = segment_of(path, size)
    fail_disk(path, PAGE, 2 * PAGE, times=1)
    items = list(kseg.open(path))
    assert [(item.position, item.end) for item in items] == extents
    assert all(not isinstance(item, kseg.Damage) and item.is_valid for item in items)


def test_a_file_of_which_nothing_can_be_read(path: Path, fail_disk: FailDisk) -> None:
    segment_of(path, 300_000)
    size = path.stat().st_size
    fail_disk(path, 0, size)
    damage = [item for item in kseg.open(path) if isinstance(item, kseg.Damage)]
    assert [(item.code, item.position, item.end) for item in damage] == [("unreadable-bytes", 0, size)]


def test_ranges_are_whole_pages_joined(tmp_path: Path, fail_disk: FailDisk) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 16 * 300 + b"end")
    for start, stop in ((PAGE, 3 * PAGE), (5 * PAGE + 512, 5 * PAGE + 1024), (299 * PAGE, 300 * PAGE + 3)):
        fail_disk(path, start, stop)
    expected = [(PAGE, 3 * PAGE), (5 * PAGE, 6 * PAGE), (299 * PAGE, 300 * PAGE + 3)]
    with path.open("rb") as file:
        assert unreadable_ranges(Extent(file.fileno()), path.stat().st_size) == expected
        found = read_around(Extent(file.fileno()), 10, 7 * PAGE)
    whole = bytearray(path.read_bytes())
    for start, stop in expected:
        whole[start:stop] = bytes(stop - start)
    assert found == whole[10 : 7 * PAGE]
    assert overlapping(expected, 2 * PAGE, 5 * PAGE + 1) == [(2 * PAGE, 3 * PAGE), (5 * PAGE, 5 * PAGE + 1)]
    assert overlapping(expected, 3 * PAGE, 5 * PAGE) == []


def cleaner_windows(path: Path) -> int:
    """Returns the number of batches that the cleaner reads."""
    return sum(window.count for window in windows(str(path), Buffers()))


@pytest.mark.parametrize("size", [12_000, 300_000])
def test_the_cleaner_names_unreadable_bytes(size: int, path: Path, fail_disk: FailDisk) -> None:
    segment_of(path, size)
    fail_disk(path, 2 * PAGE, 3 * PAGE)
    with pytest.raises(kseg.UnreadableError, match=rf"bytes {2 * PAGE} to {3 * PAGE - 1}\)"):
        cleaner_windows(path)


def test_the_cleaner_takes_what_a_second_read_gives(path: Path, fail_disk: FailDisk) -> None:
    extents = segment_of(path, 300_000)
    fail_disk(path, 2 * PAGE, 3 * PAGE, times=1)
    assert cleaner_windows(path) == len(extents)


@pytest.mark.parametrize("size", [12_000, 300_000])
def test_damage_is_not_looked_for_on_the_disk(size: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = segment_of(path, size)
    data = bytearray(path.read_bytes())
    data[extents[1][1] - 1] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr(source, "unreadable_ranges", lambda *_: pytest.fail("the file is read a second time"))
    with pytest.raises(DamagedError, match=f"damaged at position {extents[1][0]}:"):
        cleaner_windows(path)
