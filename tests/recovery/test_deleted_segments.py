"""Which segments that a broker has marked as deleted fit between those of the log."""

from pathlib import Path

import pytest

from kseg.recovery.leftovers import deleted_segments
from recovery.damages import last_offset, with_epoch
from recovery.partitions import at_offset, make, real_batches

BATCHES = [*real_batches(0), *real_batches(46)]
MIDDLE = BATCHES[3:6]
START, END = last_offset(BATCHES[2]) + 1, last_offset(BATCHES[5]) + 1


def chosen(directory: Path, before: list[bytes], behind_at: int, behind: list[bytes]) -> tuple[list[int], list[str]]:
    """The base offsets of restored segments and the reasons for the others, if the middle one is deleted."""
    make(directory, {0: before, behind_at: behind})
    (directory / f"{START:020d}.log.deleted").write_bytes(b"".join(MIDDLE))
    found = deleted_segments(str(directory))
    return [segment.base_offset for segment in found.restored], [why for _, why in found.skipped]


def test_a_segment_that_fits_exactly_is_restored(tmp_path: Path) -> None:
    assert chosen(tmp_path / "a-0", BATCHES[:3], END, BATCHES[6:]) == ([START], [])


def test_offsets_that_the_segment_before_has_are_not_restored(tmp_path: Path) -> None:
    restored, why = chosen(tmp_path / "a-0", BATCHES[:4], END, BATCHES[6:])
    assert (restored, len(why)) == ([], 1)
    assert "the log has these offsets" in why[0]


def test_offsets_that_the_segment_behind_has_are_not_restored(tmp_path: Path) -> None:
    behind = [at_offset(BATCHES[5], END - 1), *BATCHES[6:]]
    restored, why = chosen(tmp_path / "a-0", BATCHES[:3], END - 1, behind)
    assert (restored, len(why)) == ([], 1)
    assert "the log has these offsets" in why[0]


@pytest.mark.parametrize(("before", "behind", "fits"), [(0, 1, True), (1, 1, False)])
def test_records_of_an_older_epoch_are_not_restored(before: int, behind: int, fits: bool, tmp_path: Path) -> None:
    restored, why = chosen(
        tmp_path / "a-0",
        [with_epoch(batch, before) for batch in BATCHES[:3]],
        END,
        [with_epoch(batch, behind) for batch in BATCHES[6:]],
    )
    assert restored == ([START] if fits else [])
    assert ["leader epochs do not fit" in reason for reason in why] == ([] if fits else [True])


def test_a_deleted_segment_without_a_batch_is_not_restored(tmp_path: Path) -> None:
    directory = make(tmp_path / "a-0", {0: BATCHES[:3]})
    (directory / f"{START:020d}.log.deleted").write_bytes(b"")
    assert [why for _, why in deleted_segments(str(directory)).skipped] == ["holds no batch"]
