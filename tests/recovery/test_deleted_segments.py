"""Which segments that a broker has marked as deleted do not fit between those of the log."""

from pathlib import Path
from typing import Any

import pytest

from kseg.recovery import leftovers
from kseg.recovery.leftovers import SegmentSpan, deleted_segments
from recovery.damages import last_offset
from recovery.partitions import at_offset, make, real_batches
from segment.segments import sealed

BATCHES = [*real_batches(0), *real_batches(46)]
START, MIDDLE, END = (last_offset(BATCHES[i]) + 1 for i in (2, 3, 5))


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


@pytest.mark.parametrize(
    ("deleted", "names"),
    [
        ({START: BATCHES[3:4], MIDDLE: BATCHES[4:6]}, [START, 0, END, MIDDLE]),
        ({START: []}, [START]),
    ],
    ids=["restored", "empty"],
)
def test_each_segment_is_read_once(
    deleted: dict[int, list[bytes]], names: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those of the log only where a deleted one holds records."""
    opened, span_of = list[int](), leftovers.span_of

    def counted(path: str, *rest: Any, **named: Any) -> SegmentSpan:
        opened.append(int(Path(path).name.partition(".")[0]))
        return span_of(path, *rest, **named)

    monkeypatch.setattr(leftovers, "span_of", counted)
    directory = make(tmp_path / "a-0", {0: BATCHES[:3], END: BATCHES[6:]})
    for base, batches in deleted.items():
        (directory / f"{base:020d}.log.deleted").write_bytes(b"".join(batches))
    found = deleted_segments(str(directory))
    assert opened == names
    assert [span.base_offset for span in found.restored] == [base for base, batches in deleted.items() if batches]


def test_the_epochs_behind_damage_are_restored(tmp_path: Path) -> None:
    """The headers of a segment come in several parts, of which damage ends one."""
    first, second = (sealed(each, 12, epoch.to_bytes(4, "big")) for epoch, each in enumerate(BATCHES[3:5], 4))
    directory = make(tmp_path / "a-0", {0: BATCHES[:3]})
    (directory / f"{START:020d}.log.deleted").write_bytes(first + b"\7" * 99 + second)
    (span,) = deleted_segments(str(directory)).restored
    assert [(entry.epoch, entry.start_offset) for entry in span.epochs] == [(4, START), (5, MIDDLE)]
