"""The record of accepted gaps outlives its changes, is withdrawn by their undo, and is written by copies; a hostile one
does no harm."""

from itertools import product
from pathlib import Path

import pytest

from changes.failing import QUICK, CountingDisk, killed_at
from changes.trees import make, quarantine
from kseg.changes.accepted_gaps import AcceptedGaps, accepted_gaps, record
from kseg.changes.apply import Keeping, apply
from kseg.changes.copies import write_copy
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan
from kseg.changes.undo import complete_interrupted, last_change, purge, undo
from kseg.errors import KsegError

GAPS = [(3, 5), (9, 9)]


def salvaged(directory: Path, keeping: Keeping | None = None, disk: Disk | None = None) -> None:
    plan = Plan(str(directory), gaps=list(GAPS))
    plan.truncate("00.log", 40, "is damaged")
    apply(plan, "recover --mode salvage", keeping, disk)


def prepare(directory: Path) -> None:
    make(directory, {"00.log": b"bytes" * 20})


def names_left(directory: Path) -> list[str]:
    return sorted(path.name for path in quarantine(directory).iterdir())


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    prepare(tmp_path / "orders-0")
    return tmp_path / "orders-0"


def test_gaps_stay_known_when_the_purge_is_killed(tmp_path: Path) -> None:
    def prepare_salvaged(directory: Path) -> None:
        prepare(directory)
        salvaged(directory)

    def purge_last(directory: Path, disk: Disk) -> None:
        purge(last_change(str(directory)), disk)

    for k, directory in enumerate(killed_at(1, tmp_path, prepare_salvaged, purge_last)):
        assert set(accepted_gaps(str(directory)).ranges) == set(GAPS)
        complete_interrupted(str(directory), QUICK)
        if names_left(directory) != ["accepted-gaps"]:
            change = last_change(str(directory))
            undo(change) if k % 2 else purge(change)
        assert not quarantine(directory).exists() or names_left(directory) == ["accepted-gaps"]
        assert set(accepted_gaps(str(directory)).ranges) == (set(GAPS) if quarantine(directory).exists() else set())
        assert quarantine(directory).exists() == ((directory / "00.log").stat().st_size == 40)


def test_gaps_of_a_change_that_keeps_nothing(tmp_path: Path) -> None:
    def run(directory: Path, disk: Disk) -> None:
        salvaged(directory, Keeping(keeps=False), disk)

    for directory in killed_at(1, tmp_path, prepare, run):
        complete_interrupted(str(directory), QUICK)
        if (directory / "00.log").stat().st_size == 40:
            assert (accepted_gaps(str(directory)).ranges, names_left(directory)) == (GAPS, ["accepted-gaps"])
        else:
            assert not quarantine(directory).exists()


def test_an_undo_withdraws_only_the_gaps_of_its_change(partition: Path) -> None:
    record(str(partition), [(100, 200)], Disk())
    salvaged(partition)
    record(str(partition), GAPS, Disk())  # as a purge that was killed
    undo(last_change(str(partition)))
    assert accepted_gaps(str(partition)).ranges == [(100, 200)]


def test_a_copy_takes_the_gaps_along(partition: Path, tmp_path: Path) -> None:
    salvaged(partition)
    record(str(partition), [(100, 200)], Disk())
    copy = write_copy(Plan(str(partition), gaps=[(300, 300)]), str(tmp_path), name="copy-0")
    assert accepted_gaps(copy).ranges == [*GAPS, (100, 200), (300, 300)]
    assert names_left(Path(copy)) == ["accepted-gaps"]


def test_only_gaps_that_are_named_exactly_are_accepted() -> None:
    known = AcceptedGaps([(3, 5), (10, 12), (13, 20), (0, (1 << 63) - 1)])
    assert not known.among([(3, 4), (4, 5), (10, 11), (12, 13), (21, 30)], 0)
    assert known.among([(3, 5), (13, 20)], 0) == {(3, 5), (13, 20)}
    adjacent = AcceptedGaps([(10, 12), (13, 20)])
    assert adjacent.among([(10, 20)], 0) == {(10, 20)}
    assert adjacent.among([(10, 15), (16, 20)], 0) == {(10, 15), (16, 20)}, "segments divide gaps elsewhere"
    assert not adjacent.among([(10, 15), (16, 21)], 0)
    assert adjacent.among([(15, 20)], 15) == {(15, 20)}, "retention has removed the rest"
    assert [adjacent.missing_in(*one) for one in ((0, 9), (11, 13), (0, 99))] == [0, 3, 11]


def test_accepted_offsets_of_a_range_are_counted_once() -> None:
    ranges = [(3, 5), (4, 9), (10, 10), (20, 29), (22, 23)]
    offsets, known = {offset for a, b in ranges for offset in range(a, b + 1)}, AcceptedGaps(ranges)
    for first, last in product(range(32), repeat=2):
        assert known.missing_in(first, last) == len(offsets & {*range(first, last + 1)})


@pytest.mark.parametrize(
    "content",
    [
        b"", b"0\n", b"[[1, 2],", b"[[2, 1]]", b"[[-1, 3]]", b"[[1, 2, 3]]", b"[1, 2]", b'[["1", 2]]', b"[[0, 1e99]]",
        b"[[0, %d]]" % (1 << 63), b"[[1, null]]", b"{}", b"null", b"[\xff]", b"\0" * 99, b"[" * 99_999,
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_an_error(content: bytes, partition: Path) -> None:
    quarantine(partition).mkdir()
    (quarantine(partition) / "accepted-gaps").write_bytes(content)
    with pytest.raises(KsegError, match="accepted-gaps"):
        accepted_gaps(str(partition))


def test_a_link_is_not_followed_and_a_large_file_not_read(partition: Path, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", quarantine(partition) / "accepted-gaps"
    outside.write_bytes(b"[[3, 5]]")
    quarantine(partition).mkdir()
    inside.symlink_to(outside)
    with pytest.raises(KsegError, match="link"):
        record(str(partition), GAPS, Disk())
    inside.unlink()
    with inside.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(KsegError):
        accepted_gaps(str(partition))
    assert outside.read_bytes() == b"[[3, 5]]"


def test_no_more_gaps_than_can_be_read_again(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.changes.accepted_gaps.MAX_ACCEPTED_BYTES", 1500)
    record(str(partition), [(k, k) for k in range(0, 2000, 2)], CountingDisk())
    assert 100 < len(accepted_gaps(str(partition)).ranges) < 200
