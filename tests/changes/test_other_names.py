"""Files with several hard links (such as backups), and interrupted changes whose directory was copied."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

from changes.failing import QUICK, killed_at, struck
from changes.test_kill import SEEDS
from changes.trees import contents, make, random_files, random_plan, tree
from examples import fewer
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan
from kseg.changes.quarantine import changes
from kseg.changes.undo import complete_interrupted, last_change, undo
from kseg.errors import KsegError

COPIES = {
    "cp -a": ["cp", "-a"],
    "links broken": ["cp", "-a", "--no-preserve=links"],
}


def linked(directory: Path) -> Path:
    backup = directory.with_name("backup")
    shutil.copytree(directory, backup, copy_function=os.link)
    return backup


def test_a_backup_of_hard_links_does_not_change(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    make(partition, {"a.log": b"abcdef" * 1000, "b.log": b"b" * 100})
    plan = Plan(str(partition))
    plan.truncate("a.log", 600, "is cut")
    plan.truncate("b.log", 0, "is emptied")
    before, backup = tree(partition), linked(partition)
    apply(plan, "test", disk=QUICK)
    assert tree(backup) == before
    assert contents(partition) == {"a.log": b"abcdef" * 100, "b.log": b""}
    assert tree(partition)["a.log"][2] == before["a.log"][2]
    shutil.rmtree(backup)
    after, backup = contents(partition), linked(partition)
    undo(last_change(str(partition)), QUICK)
    assert tree(partition) == before
    assert contents(backup) == after


@fewer(10)
@given(seed=SEEDS)
def test_random_changes_of_files_with_hard_links(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("linked")
    files, wanted = random_files(random.Random(seed)), {}

    def prepare(partition: Path) -> None:
        make(partition, files)
        linked(partition)

    def run(partition: Path, disk: Disk) -> None:
        plan, wanted[partition] = random_plan(random.Random(seed), partition, 5)
        apply(plan, "test", disk=disk)

    prepare(folder / "before" / "orders-0")
    before = tree(folder / "before" / "orders-0")
    for partition in killed_at(1, folder, prepare, run):
        complete_interrupted(str(partition), QUICK)
        assert tree(partition.with_name("backup")) == before
        assert contents(partition) in (files, wanted[partition])
        if changes(str(partition)):
            undo(last_change(str(partition)), QUICK)
        assert tree(partition) == before == tree(partition.with_name("backup"))
        shutil.rmtree(partition.parent)


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_completed_in_a_copy(copy: list[str], step: int, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("copied")
    files, wanted = random_files(random.Random(seed)), {}

    def run(partition: Path, disk: Disk) -> None:
        plan, wanted[partition] = random_plan(random.Random(seed), partition, 5)
        apply(plan, "test", disk=disk)

    make(folder / "before", files)
    for partition, _, error in struck(step, folder, lambda path: make(path, files), run, first=seed % step):
        if error is not None:
            twin, other = (partition.parent / name / "orders-0" for name in ("twin", "other"))
            for path in (twin, other):
                path.parent.mkdir()
                subprocess.run([*copy, partition, path], check=True)
            told = complete_interrupted(str(twin), QUICK)
            assert contents(twin) in (files, wanted[partition]), told
            assert not any("given up" in line for line in told), told
            if changes(str(other)):
                undo(last_change(str(other)), QUICK)
                assert tree(other) == tree(folder / "before")
        shutil.rmtree(partition.parent)


def test_a_changed_copy_is_not_completed(tmp_path: Path) -> None:
    def run(path: Path, disk: Disk) -> None:
        plan = Plan(str(path))
        plan.write("a.log", [b"new"], "")
        plan.delete("b.log", "")
        apply(plan, "test", disk=disk)

    done = 0
    for killed in killed_at(1, tmp_path, lambda path: make(path, {"a.log": b"a" * 100, "b.log": b"b" * 100}), run):
        if [change.state for change in changes(str(killed))] == ["committed"] and (killed / "b.log").exists():
            copy = killed.with_name(f"copy{killed.name}")
            shutil.copytree(killed, copy)
            times = (copy / "b.log").stat()
            (copy / "b.log").write_bytes(b"x" * 100)
            os.utime(copy / "b.log", ns=(times.st_atime_ns, times.st_mtime_ns))
            [told] = complete_interrupted(str(copy), QUICK)
            assert "is given up" in told
            assert (copy / "b.log").read_bytes() == b"x" * 100
            done += 1
    assert done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_hard_link_to_a_file_of_another_owner_is_left_alone(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    make(partition, {"a.log": b"abcdef"})
    os.chown(partition, 1234, 1234)
    (tmp_path / "shadow").hardlink_to(partition / "a.log")
    plan = Plan(str(partition))
    plan.truncate("a.log", 3, "is cut")
    with pytest.raises(KsegError, match=r"a\.log: has another name, and another owner than its directory"):
        apply(plan, "test")
    assert (tmp_path / "shadow").read_bytes() == b"abcdef"
    assert sorted(path.name for path in partition.iterdir()) == ["a.log"]


def test_empty_files_are_told_apart_by_their_times_in_a_copy(tmp_path: Path) -> None:
    """The digest of what was kept of the removed file is that of the file that takes its name, too."""

    def run(path: Path, disk: Disk) -> None:
        plan = Plan(str(path))
        plan.delete("b.log", "goes")
        plan.rename("a.index", "b.log", "moves")
        apply(plan, "test", disk=disk)

    for killed in killed_at(1, tmp_path, lambda path: make(path, {"a.index": b"", "b.log": b""}), run):
        twin = killed.with_name(f"twin{killed.name}")
        subprocess.run(["cp", "-a", killed, twin], check=True)
        told = complete_interrupted(str(twin), QUICK)
        assert not any("given up" in line for line in told), told
        assert sorted(contents(twin)) in (["a.index", "b.log"], ["b.log"])
