"""What a recovery removes: the intact batches behind a position, and the damage that begins there."""

from pathlib import Path

import pytest

from kseg.changes.plan import Plan
from kseg.recovery.broker.segments import lost_behind
from kseg.recovery.result import MAX_REMAINS, Loss, Recovery, Remaining
from recovery.damages import broken, first_offset, last_offset
from recovery.partitions import real_batches

# How many lines a recovery prints about damage that stays.


@pytest.mark.parametrize("more", [-1, 0, 1, 7])
def test_only_the_first_of_many_are_listed(more: int, tmp_path: Path) -> None:
    count = MAX_REMAINS + more
    remains = [Remaining("0.log", 10 * i, i, "count-mismatch", "has fewer records") for i in range(count)]
    found = Recovery(str(tmp_path), Plan(str(tmp_path)), 0, remains=remains, unrepaired="0.log is empty")
    shown = list(found.warnings())
    assert [f"position {10 * i}, offset {i}," in line for i, line in enumerate(shown[:MAX_REMAINS])] == (
        [True] * min(count, MAX_REMAINS) + [False] * (more < 0)
    )
    rest = [f"{tmp_path}: at least {more} more stay as they are"] if more > 0 else []
    assert shown[min(count, MAX_REMAINS) :] == [*rest, f"{tmp_path}: 0.log is empty"]


BATCHES = real_batches(0)


def lost(folder: Path, *behind: bytes) -> Loss:
    """The loss behind two batches that stay."""
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"".join([*BATCHES[:2], *behind]))
    return lost_behind(str(path), len(b"".join(BATCHES[:2])))


def test_intact_batches_are_counted_and_no_damage_is(tmp_path: Path) -> None:
    found = lost(tmp_path, *BATCHES[2:5])
    assert (found.batches, found.code) == (3, "")
    assert (found.first_offset, found.last_offset) == (first_offset(BATCHES[2]), last_offset(BATCHES[4]))
    assert found.records == found.last_offset - found.first_offset + 1
    times = [int.from_bytes(batch[at : at + 8], "big") for batch in BATCHES[2:5] for at in (27, 35)]
    assert (found.first_timestamp, found.last_timestamp) == (min(times), max(times))


@pytest.mark.parametrize(
    ("first", "code"),
    [(bytes(100), "zero-block"), (b"\xff" * 100, "nonsense-block"), (broken(BATCHES[2]), "crc-mismatch")],
)
def test_the_damage_is_that_at_the_beginning(first: bytes, code: str, tmp_path: Path) -> None:
    found = lost(tmp_path, first, BATCHES[3], bytes(50), BATCHES[4])
    assert (found.code, found.batches) == (code, 2)
    assert (found.first_offset, found.last_offset) == (first_offset(BATCHES[3]), last_offset(BATCHES[4]))


def test_damage_behind_an_intact_batch_is_not_at_the_beginning(tmp_path: Path) -> None:
    found = lost(tmp_path, BATCHES[2], bytes(100), BATCHES[3])
    assert (found.code, found.batches) == ("", 2)


def test_losses_add_up() -> None:
    found = Loss(batches=1, records=4, first_offset=10, last_offset=13, first_timestamp=900, last_timestamp=950)
    found.add(Loss())
    assert found == Loss(1, 4, 10, 13, 900, 950)
    found.add(Loss(2, 5, 20, 24, 800, 990))
    assert found == Loss(3, 9, 10, 24, 800, 990)
    nothing = Loss()
    nothing.add(Loss(2, 5, 20, 24, 800, 990))
    assert nothing == Loss(2, 5, 20, 24, 800, 990)
