"""Files rewritten from deltas: the kept ranges, and the undo."""

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes.failing import QUICK, FailingDisk, killed_at
from changes.trees import contents, make, plan_of, quarantine, tree
from kseg.changes.apply import Keeping, apply
from kseg.changes.content import RemovedRanges, deltas_of
from kseg.changes.disk import Disk
from kseg.changes.disk_space import Space, space_of
from kseg.changes.plan import Plan, Range
from kseg.changes.quarantine import changes
from kseg.changes.undo import complete_interrupted, last_change, undo
from kseg.errors import KsegError, StoppedHalfwayError

FIRST, SECOND = bytes(range(256)) * 400, bytes(range(255, -1, -1)) * 400
WANTED = {
    "a.log": FIRST[:30_000] + FIRST[40_000:90_000] + b"mended" + FIRST[90_006:],
    "b.log": SECOND[:50_000] + FIRST[32_000:37_000] + SECOND[50_000:],
}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    make(directory, {"a.log": FIRST, "b.log": SECOND})
    return directory


def plan_for(partition: Path) -> Plan:
    """Removes a range of the first file, moves a part of it into the second, and replaces six bytes there."""
    first = [Range("a.log", 0, 30_000), Range("a.log", 40_000, 50_000), b"mended", Range("a.log", 90_006, 12_394)]
    moved = Range(str(partition / "a.log"), 32_000, 5000)
    second = [Range("b.log", 0, 50_000), moved, Range("b.log", 50_000, 52_400)]
    return plan_of(partition, ("write", "a.log", first, "is damaged"), ("write", "b.log", second, "gets a batch"))


def kept_in(place: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(place.iterdir())]


def test_only_removed_bytes_are_kept(partition: Path) -> None:
    before = tree(partition)
    apply(plan_for(partition), "test")
    assert contents(partition) == WANTED
    assert kept_in(quarantine(partition) / "1" / "old") == [FIRST[30_000:40_000] + FIRST[90_000:90_006], b""]
    assert list((quarantine(partition) / "1" / "new").iterdir()) == []
    assert (quarantine(partition) / "1" / "recipe-1").read_bytes() == (
        b"own 0 0 50000\nkept 0 2000 5000\nown 0 50000 52400\n"
    )
    (change,) = changes(str(partition))
    assert change.kept_bytes == 10_006
    undo(change)
    assert tree(partition) == before
    assert not quarantine(partition).exists()


def test_bytes_that_are_cut_off_are_lent(partition: Path) -> None:
    """From the file with the cut bytes, and from the shorter one what it keeps."""
    before, pieces = contents(partition), [Range("b.log", 0, 90_000), Range("a.log", 40_000, 30_000)]
    steps = ("truncate", "a.log", 50_000, "is split"), ("write", "b.log", pieces, "gets the rest")
    apply(plan_of(partition, *steps), "test")
    assert contents(partition) == {"a.log": FIRST[:50_000], "b.log": SECOND[:90_000] + FIRST[40_000:70_000]}
    undo(last_change(str(partition)))
    assert contents(partition) == before


def test_the_space_that_it_needs(partition: Path) -> None:
    plan = plan_for(partition)
    assert space_of(plan) == Space(10_006 - 10_000 + 107_400, 10_006 - 10_000 + 5000)
    assert space_of(plan, keeps=False) == Space(102_400, -5000)
    assert space_of(plan, links=False).left == -5000


def test_the_space_that_a_cut_needs(partition: Path) -> None:
    """The removed bytes are kept, or freed; a file with another name is written anew."""
    plan, freed = plan_of(partition, ("truncate", "a.log", 1000, "damaged")), len(FIRST) - 1000
    assert space_of(plan) == Space(freed, 0)
    assert space_of(plan, keeps=False) == space_of(plan, links=False) == Space(0, -freed)
    os.link(partition / "a.log", partition.parent / "backup")
    assert space_of(plan) == Space(freed + 1000, freed + 1000)


@pytest.mark.parametrize("place", ["beside", "/dev/shm"])
def test_kept_elsewhere(partition: Path, place: str) -> None:
    other = partition.parent if place == "beside" else Path(place)
    if not other.is_dir() or not os.access(other, os.W_OK):
        pytest.skip("no such place here")
    folder = other / f"kseg-test-{os.getpid()}"
    try:
        before = tree(partition)
        apply(plan_for(partition), "test", Keeping(elsewhere=str(folder)))
        assert contents(partition) == WANTED
        (kept,) = folder.iterdir()
        assert kept_in(kept) == [FIRST[30_000:40_000] + FIRST[90_000:90_006], b""]
        undo(last_change(str(partition)))
        assert tree(partition) == before
        assert list(folder.iterdir()) == []
    finally:
        folder.rmdir()


def test_modes_times_and_attributes_are_restored(partition: Path) -> None:
    path = partition / "a.log"
    try:
        os.setxattr(path, "user.kseg", b"mark")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")
    path.chmod(0o604)
    before = tree(partition)
    apply(plan_for(partition), "test")
    assert (path.stat().st_mode & 0o777, os.getxattr(path, "user.kseg")) == (0o604, b"mark")
    os.removexattr(path, "user.kseg")
    path.chmod(0o600)
    undo(last_change(str(partition)))
    assert (tree(partition), os.getxattr(path, "user.kseg")) == (before, b"mark")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_restored(partition: Path) -> None:
    for path in (partition, *partition.iterdir()):
        os.chown(path, 1234, 2345)
    apply(plan_for(partition), "test")
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in partition.rglob("*")}
    undo(last_change(str(partition)))
    assert owners | {(path.stat().st_uid, path.stat().st_gid) for path in partition.rglob("*")} == {(1234, 2345)}


def test_changes_on_top_of_each_other(partition: Path) -> None:
    states = []
    for cut in (90_000, 50_000, 20_000):
        states.append(tree(partition))
        size = (partition / "a.log").stat().st_size
        pieces = [Range("a.log", 10, cut), Range("a.log", cut + 20, size - cut - 20)]
        apply(plan_of(partition, ("write", "a.log", pieces, "less of it")), "test", disk=QUICK)
    while states:
        undo(last_change(str(partition)), QUICK)
        assert tree(partition) == states.pop()


@pytest.mark.parametrize("damage", [b"", b"x" * 10_006, b"x" * 10_007])
def test_undo_refuses_if_the_kept_bytes_have_changed(partition: Path, damage: bytes) -> None:
    apply(plan_for(partition), "test")
    (quarantine(partition) / "1" / "old" / "0").write_bytes(damage)
    with pytest.raises(KsegError, match="is missing or has changed since; nothing was undone"):
        undo(last_change(str(partition)))
    assert contents(partition) == WANTED


@pytest.mark.parametrize(
    "recipe",
    [b"", b"own 0 0 92400\n", b"own 0 0\n", b"own 0 -1 92400\n", b"own 0 0 102401\n", b"\xff 0 0 1\n", b"own a b c"],
)
def test_a_tampered_delta(partition: Path, recipe: bytes) -> None:
    apply(plan_for(partition), "test")
    (quarantine(partition) / "1" / "recipe-0").write_bytes(recipe)
    with pytest.raises(KsegError, match=r"is no delta.*; nothing was undone"):
        undo(last_change(str(partition)))
    assert contents(partition) == WANTED


@pytest.mark.parametrize("recipe", [b"", b"own 0 0 1\n", b"theirs 0 0 107400\n", b"kept 7 0 107400\n"])
def test_a_delta_tampered_with_during_the_change(partition: Path, recipe: bytes) -> None:
    disk = FailingDisk(None, errno.ENOSPC)
    apply(plan_for(partition), "test", disk=disk)
    undo(last_change(str(partition)), QUICK)
    before = tree(partition)
    at = max(i for i, call in enumerate(disk.calls) if call == "copy_range")
    with pytest.raises(StoppedHalfwayError):
        apply(plan_for(partition), "test", disk=FailingDisk(at, errno.ENOSPC))
    (quarantine(partition) / "1" / "recipe-1").write_bytes(recipe)
    with pytest.raises(StoppedHalfwayError, match="stopped half-way"):
        complete_interrupted(str(partition), QUICK)
    undo(last_change(str(partition)), QUICK)
    assert tree(partition) == before


def test_no_more_than_one_new_file_at_a_time(tmp_path: Path) -> None:
    """An interruption at any call leaves at most one new file beside its old one; a failed one uses no space."""
    files = {"a.log": FIRST, "b.log": SECOND}

    def run(directory: Path, disk: Disk) -> None:
        apply(plan_for(directory), "test", disk=disk)

    for directory in killed_at(1, tmp_path, lambda path: make(path, files), run):
        new = quarantine(directory).glob("1*/new/?")
        assert sum(path.stat().st_size > 0 for path in new) <= 1
        complete_interrupted(str(directory), QUICK)
        if changes(str(directory)):
            undo(last_change(str(directory)), QUICK)
        assert contents(directory) == files


def test_a_full_disk_leaves_space_for_the_undo(partition: Path) -> None:
    class Full(FailingDisk):
        def strike(self, name: str, number: int) -> None:
            if name == "copy_range" and quarantine(partition).joinpath("1").exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StoppedHalfwayError, match="No space left"):
        apply(plan_for(partition), "test", disk=Full(0, errno.ENOSPC))
    assert [path.stat().st_size for path in sorted(quarantine(partition).glob("1/new/?"))] == [0, 0]


def test_a_file_changed_by_another_program_is_left_alone(partition: Path) -> None:
    class Meddling(FailingDisk):
        def rename(self, path: str, target: str) -> None:
            super().rename(path, target)
            if target.endswith("a.log"):
                (partition / "b.log").write_bytes(b"a broker's")

    with pytest.raises(StoppedHalfwayError, match=r"b\.log: was changed by another program"):
        apply(plan_for(partition), "test", disk=Meddling(None, 0))
    assert (partition / "b.log").read_bytes() == b"a broker's"
    (told,) = complete_interrupted(str(partition), QUICK)
    assert "is given up" in told


def test_a_delta_reuses_most_bytes(partition: Path) -> None:
    smaller, half = [Range("a.log", 0, 51_199)], [Range("b.log", 0, 51_200), Range("a.log", 0, 51_200)]
    plan = plan_of(partition, ("write", "a.log", smaller, "a part stays"), ("write", "b.log", half, "half of it stays"))
    assert set(deltas_of(plan).removed_ranges) == {1}


SIZE = 30
STAYING = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 12)), max_size=6)


@given(STAYING, st.booleans(), st.integers(0, SIZE), st.integers(0, SIZE))
def test_ranges_are_those_of_a_set(staying: list[tuple[int, int]], is_sorted: bool, position: int, length: int) -> None:
    staying = sorted(staying) if is_sorted else staying
    found = RemovedRanges(SIZE, iter(staying))
    assert found.are_within_file == all(start + size <= SIZE for start, size in staying)
    stays = {at for start, size in staying for at in range(start, start + size)}
    removed = [at for at in range(SIZE) if at not in stays]
    ranges = list(found)
    assert [at for start, size in ranges for at in range(start, start + size)] == removed
    assert all(size > 0 for _, size in ranges)
    assert all(one[0] + one[1] <= two[0] for one, two in pairwise(ranges))
    assert found.size == len(removed)
    places = {at: place for place, at in enumerate(removed)}
    length = min(length, SIZE - position)
    parts = list(found.split(position, length))
    expected = [(at, places.get(at, -1)) for at in range(position, position + length)]
    assert [(at + i, -1 if place < 0 else place + i) for at, size, place in parts for i in range(size)] == expected
    assert all(size > 0 for _, size, _ in parts)
