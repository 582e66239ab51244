"""System calls that fail at any point: the files are in the old state, or in one that can be completed or undone."""

import errno
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes.failing import QUICK, FailingDisk, struck
from changes.test_kill import KEEPING, SEEDS, keeping_of, planned
from changes.trees import contents, kept_bytes, make, plan_of, quarantine, random_files, tree
from examples import fewer
from kseg.changes.apply import Keeping, apply
from kseg.changes.disk import Disk
from kseg.changes.disk_space import freeing_steps
from kseg.changes.full_disk import apply_freeing, apply_without_record
from kseg.changes.manifest import ChangedSinceError
from kseg.changes.plan import Plan
from kseg.changes.quarantine import changes, freed_by_removing
from kseg.changes.undo import complete_interrupted, last_change, purge, undo
from kseg.errors import KsegError, StoppedHalfwayError

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)


@fewer(6)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING), number=st.sampled_from(ERRORS), stays=st.booleans())
def test_any_error(seed: int, kind: str, number: int, stays: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("error")
    wanted: dict[Path, dict[str, bytes]] = {}
    files = random_files(random.Random(seed))
    make(folder / "before", files)
    before = tree(folder / "before")

    def run(directory: Path, disk: Disk) -> None:
        act, wanted[directory] = planned(seed, directory)
        act(disk, keeping_of(kind, directory.parent))

    def failing(_directory: Path, at: int | None) -> FailingDisk:
        return FailingDisk(at, number, stays)

    for directory, _, error in struck(1, folder, lambda path: make(path, files), run, failing):
        if isinstance(error, StoppedHalfwayError):
            complete_interrupted(str(directory), QUICK)
            assert contents(directory) == wanted[directory]
        elif error is not None:
            assert "nothing was changed" in str(error)
            assert tree(directory) == before
            if not stays and "could not be removed" not in str(error):
                assert not quarantine(directory).exists()
                assert kept_bytes(directory.parent / "kept") == []
            complete_interrupted(str(directory), QUICK)
            assert tree(directory) == before or contents(directory) == wanted[directory]
        else:
            assert contents(directory) == wanted[directory]
        shutil.rmtree(directory.parent)


@pytest.mark.slow
@fewer(10)
@given(seed=SEEDS, kind=st.sampled_from(KEEPING[:2]), number=st.sampled_from(ERRORS))
def test_any_error_of_undo_is_safe(seed: int, kind: str, number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("error")
    wanted: dict[Path, dict[str, bytes]] = {}
    files = random_files(random.Random(seed))
    make(folder / "before", files)

    def prepare(directory: Path) -> None:
        make(directory, files)
        act, wanted[directory] = planned(seed, directory)
        act(QUICK, keeping_of(kind, directory.parent))

    def run(directory: Path, disk: Disk) -> None:
        for change in changes(str(directory)):
            undo(change, disk)

    for directory, _, error in struck(1, folder, prepare, run, lambda _, at: FailingDisk(at, number)):
        if error is not None and not isinstance(error, StoppedHalfwayError):
            assert "nothing was changed" in str(error)
            assert contents(directory) == wanted[directory]
        complete_interrupted(str(directory), QUICK)
        if changes(str(directory)):
            undo(last_change(str(directory)), QUICK)
        assert tree(directory) == tree(folder / "before")
        assert not quarantine(directory).exists()


@pytest.mark.parametrize("keeps", [True, False])
def test_any_error_without_room_for_a_record(keeps: bool, tmp_path: Path) -> None:
    """The first step, too, may fail when it has cut the log: then nothing that is kept may go."""
    files = {"a.log": b"abcdef" * 100}
    make(tmp_path / "before", files)
    before = tree(tmp_path / "before")

    def run(directory: Path, disk: Disk) -> None:
        plan = plan_of(directory, ("truncate", "a.log", 60, "is damaged"))
        steps = freeing_steps(plan)
        assert steps is not None
        if keeps:
            elsewhere = Keeping(elsewhere=str(directory.parent / "kept"))
            apply_freeing(plan, steps, "test", elsewhere, disk, "1.1", None)
        else:
            apply_without_record(plan, steps, disk)

    for directory, _, error in struck(
        1, tmp_path, lambda path: make(path, files), run, lambda _, at: FailingDisk(at, errno.EIO)
    ):
        if error is not None and not isinstance(error, StoppedHalfwayError):
            assert tree(directory) == before
        elif keeps:
            complete_interrupted(str(directory), QUICK)
            for change in changes(str(directory)):
                undo(change, QUICK)
            assert tree(directory) == before


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    make(directory, {"a.log": b"abcdef" * 100, "a.index": b"index", "b.log": b"more"})
    return directory


def cut(directory: Path) -> Plan:
    plan = Plan(str(directory))
    plan.delete("b.log", "behind a cut")
    plan.truncate("a.log", 60, "is damaged")
    plan.write("a.index", [b"rebuilt"], "rebuilt")
    plan.write("epochs", [b"0\n0\n"], "rebuilt")
    return plan


@pytest.mark.parametrize("name", ["a.log", "epochs"])
def test_a_file_changed_or_created_after_planning_is_an_error(name: str, partition: Path) -> None:
    plan = cut(partition)
    (partition / name).write_bytes(b"a broker's")
    before = tree(partition)
    with pytest.raises(ChangedSinceError, match=f"{name}: has changed since it was read; nothing was changed"):
        apply(plan, "test")
    assert tree(partition) == before
    assert not quarantine(partition).exists()


def test_an_interrupted_change_is_abandoned_after_a_broker_changed_files(partition: Path) -> None:
    disk = FailingDisk(None, errno.EIO, stays=True)
    plan = cut(partition)
    apply(plan, "test", disk=(counting := FailingDisk(None, errno.EIO)))
    undo(last_change(str(partition)))
    disk.at = counting.calls.index("unlink") + 1  # after the first step
    with pytest.raises(StoppedHalfwayError):
        apply(cut(partition), "test", disk=disk)
    (partition / "a.log").write_bytes(b"recovered by a broker")
    found = contents(partition)
    (told,) = complete_interrupted(str(partition))
    assert "is given up" in told
    assert "a.log" in told
    assert contents(partition) == found
    assert b"more" in kept_bytes(quarantine(partition))
    assert complete_interrupted(str(partition)) == []
    (change,) = changes(str(partition))
    assert sum(freed_by_removing([change])) == change.kept_bytes > 0
    purge(change)
    assert not quarantine(partition).exists()


def test_changes_are_undone_one_after_the_other_and_in_a_copy_too(partition: Path, tmp_path: Path) -> None:
    states = [tree(partition)]
    apply(cut(partition), "first")
    states.append(tree(partition))
    second = Plan(str(partition))
    second.rename("a.index", "a.index.deleted", "expired", keeps=True)
    second.truncate("a.log", 6, "more")
    apply(second, "second")
    copy = tmp_path / "copy" / "orders-0"
    shutil.copytree(partition, copy)
    (copy / "a.index.deleted").unlink()  # as a broker does when it starts
    for directory in (partition, copy):
        undo(last_change(str(directory)))
        assert tree(directory) == states[1]
        undo(last_change(str(directory)))
        assert tree(directory) == states[0]
        with pytest.raises(KsegError, match="no change to undo"):
            last_change(str(directory))


@pytest.mark.parametrize(
    "bad", [b"", b"{}", b"[]", b"\xff", b'{"version":2}', b'{"version":1,"state":"done"}', b"[" * 9999]
)
def test_an_invalid_manifest_is_reported(bad: bytes, partition: Path) -> None:
    apply(cut(partition), "test")
    (manifest,) = quarantine(partition).rglob("manifest.json")
    manifest.write_bytes(bad)
    for run in (complete_interrupted, last_change):
        with pytest.raises(KsegError, match=r"manifest\.json"):
            run(str(partition))


def test_unknown_files_in_the_quarantine_are_ignored(partition: Path) -> None:
    quarantine(partition).mkdir()
    (quarantine(partition) / "notes.txt").write_bytes(b"mine")
    (quarantine(partition) / "7 of mine").mkdir()
    apply(cut(partition), "test")
    undo(last_change(str(partition)))
    assert complete_interrupted(str(partition)) == []
    assert sorted(path.name for path in quarantine(partition).iterdir()) == ["7 of mine", "notes.txt"]
