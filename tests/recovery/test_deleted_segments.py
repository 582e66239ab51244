"""Which segments that a broker has marked as deleted do not fit between those of the log."""

from pathlib import Path

from kseg.recovery.leftovers import deleted_segments
from recovery.damages import last_offset
from recovery.partitions import at_offset, make, real_batches

BATCHES = [*real_batches(0), *real_batches(46)]
START, END = last_offset(BATCHES[2]) + 1, last_offset(BATCHES[5]) + 1


def skipped(directory: Path, deleted: list[bytes], behind: list[bytes]) -> list[str]:
    """Why the deleted segment in the middle is not restored."""
    make(directory, {0: BATCHES[:3], END - 1: behind})
    (directory / f"{START:020d}.log.deleted").write_bytes(b"".join(deleted))
    found = deleted_segments(str(directory))
    assert found.restored == []
    return [why for _, why in found.skipped]


def test_offsets_that_the_segment_behind_has_are_not_restored(tmp_path: Path) -> None:
    (why,) = skipped(tmp_path / "a-0", BATCHES[3:6], [at_offset(BATCHES[5], END - 1), *BATCHES[6:]])
    assert "the log has these offsets" in why


def test_a_deleted_segment_without_a_batch_is_not_restored(tmp_path: Path) -> None:
    assert skipped(tmp_path / "a-0", [], BATCHES[6:]) == ["holds no batch"]
