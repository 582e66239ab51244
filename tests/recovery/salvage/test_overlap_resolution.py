"""Which of two batches that claim the same offsets stays, if nothing but they themselves can tell."""

from pathlib import Path

import pytest

from kseg.formats.rows import Scratch
from kseg.recovery.salvage.segment_draft import Parts, SalvagedBatches
from kseg.recovery.salvage.segment_scan import OverlapResolution, OverlapResult
from kseg.stores.source import open_source
from recovery.partitions import keyed_batch


def resolved(path: Path, batches: list[tuple[int, bytes]], chosen: int) -> dict[int, OverlapResult]:
    """The verdict on two batches, given by first offset and keys, that leave no offset free in 10 to 12."""
    data, parts = b"", Parts(10)
    for first, keys in batches:
        batch = keyed_batch(first, keys)
        parts.append(SalvagedBatches(len(data), len(data) + len(batch), first, first + len(keys) - 1), 1, len(keys))
        data += batch
    path.write_bytes(data)
    with open_source(str(path)) as source:
        return OverlapResolution(source, parts, 10, 12, None, Scratch()).resolve(
            [chosen], {1 - chosen: OverlapResult()}
        )


@pytest.mark.parametrize("chosen", [0, 1])
def test_of_two_with_as_many_records_the_chosen_one_stays(chosen: int, tmp_path: Path) -> None:
    found = resolved(tmp_path / "10.log", [(10, b"ab"), (11, b"cd")], chosen)
    assert list(found) == [1 - chosen]
    assert "which is ambiguous" in found[1 - chosen].doubt


@pytest.mark.parametrize("chosen", [0, 1])
def test_the_one_with_more_records_stays(chosen: int, tmp_path: Path) -> None:
    found = resolved(tmp_path / "10.log", [(10, b"ab"), (10, b"cde")], chosen)
    assert list(found) == [0]
    assert "which is ambiguous" in found[0].doubt


def test_a_part_that_cannot_be_judged_does_not_stop_the_others(tmp_path: Path) -> None:
    """The first overlaps two batches, so that nothing is said about it; the second overlaps one."""
    claims = [(10, b"a"), (11, b"b"), (10, b"cd"), (12, b"e"), (12, b"fg")]
    data, parts = b"", Parts(10)
    for first, keys in claims:
        batch = keyed_batch(first, keys)
        parts.append(SalvagedBatches(len(data), len(data) + len(batch), first, first + len(keys) - 1), 1, len(keys))
        data += batch
    path = tmp_path / "10.log"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        overlaps = OverlapResolution(source, parts, 10, 14, None, Scratch())
        found = overlaps.resolve([0, 1, 3], {2: OverlapResult(), 4: OverlapResult()})
    assert set(found) == {2, 4}
    assert found[2] == OverlapResult()
    assert found[4].expected == 13
