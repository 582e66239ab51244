"""Copies with a plan applied: complete or absent, and the input stays unchanged."""

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given

from changes.failing import QUICK, CountingDisk, FailingDisk, KillingDisk, struck
from changes.test_kill import SEEDS
from changes.trees import Tree, contents, make, random_files, random_plan, tree
from examples import fewer
from kseg.changes.copies import write_copy, write_root_files
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan, Range
from kseg.errors import KsegError, StoppedHalfwayError

FILES = {
    "00.log": b"first" * 50,
    "00.index": b"stale",
    "10.log": b"closed" * 50,
    "20.log": b"last" * 50,
    "epochs": b"0",
}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    make(tmp_path / "logs" / "orders-0", FILES)
    (tmp_path / "out").mkdir()
    return tmp_path / "logs" / "orders-0"


def plan_for(partition: Path) -> Plan:
    plan = Plan(str(partition))
    plan.write("00.index", [b"rebuilt", Range("epochs", 0, 1)], "rebuilt")
    plan.truncate("20.log", 40, "is damaged")
    plan.delete("epochs", "goes")
    return plan


def test_a_copy_has_the_files_that_the_plan_leaves(partition: Path, tmp_path: Path) -> None:
    before = tree(partition)
    assert write_copy(plan_for(partition), str(tmp_path / "out"), QUICK) == str(tmp_path / "out" / "orders-0")
    copy = tmp_path / "out" / "orders-0"
    assert contents(copy) == {
        "00.log": FILES["00.log"],
        "00.index": b"rebuilt0",
        "10.log": FILES["10.log"],
        "20.log": FILES["20.log"][:40],
    }
    assert tree(copy)["00.log"] == before["00.log"]
    assert tree(copy)["00.index"][2] == before["00.index"][2]
    for path in copy.glob("*"):  # a broker changes any file in place
        path.write_bytes(path.read_bytes()[:1])
    assert tree(partition) == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["orders-0"]


@pytest.mark.parametrize(("links", "shared"), [(False, set()), (True, {"00.log", "10.log"})])
def test_a_copy_shares_files_only_on_request_and_never_the_last_log(
    links: bool, shared: set[str], partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Disk, "clone", lambda *_: False)
    write_copy(Plan(str(partition)), str(tmp_path / "out"), QUICK, links=links)
    copy = tmp_path / "out" / "orders-0"
    assert tree(copy) == tree(partition)
    inodes = {path.stat().st_ino for path in partition.iterdir()}
    assert {path.name for path in copy.iterdir() if path.stat().st_ino in inodes} == shared


def test_an_input_that_changes_during_the_copy_is_an_error(partition: Path, tmp_path: Path) -> None:
    plan = plan_for(partition)
    (partition / "20.log").write_bytes(b"appended")
    with pytest.raises(KsegError, match=r"20\.log: has changed since it was read"):
        write_copy(plan, str(tmp_path / "out"), QUICK)
    assert list((tmp_path / "out").iterdir()) == []


@fewer(6)
@given(seed=SEEDS)
def test_a_failed_or_killed_copy_leaves_no_output(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("copies")
    rng = random.Random(seed)
    make(folder / "orders-0", random_files(rng))
    plan, wanted = random_plan(rng, folder / "orders-0", 4)
    before: Tree = tree(folder / "orders-0")

    def failing(_output: Path, at: int | None) -> CountingDisk:
        return KillingDisk(at) if at is None or at % 2 else FailingDisk(at, errno.ENOSPC)

    def run(output: Path, disk: Disk) -> None:
        write_copy(plan, str(output), disk)

    for output, _, _ in struck(1, folder, lambda path: path.mkdir(parents=True), run, failing):
        if not (output / "orders-0").exists():
            write_copy(plan, str(output), QUICK)
        assert contents(output / "orders-0") == wanted
        assert sorted(path.name for path in output.iterdir()) == ["orders-0"]
        assert tree(folder / "orders-0") == before


def test_a_copy_that_cannot_be_synced_is_there(partition: Path, tmp_path: Path) -> None:
    class Unsynced(CountingDisk):
        def sync_directory(self, path: str) -> None:
            if path == str(tmp_path / "out"):
                raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StoppedHalfwayError, match="orders-0: was written, but a power cut may remove it: Input/output"):
        write_copy(plan_for(partition), str(tmp_path / "out"), Unsynced())
    assert "00.index" in contents(tmp_path / "out" / "orders-0")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes of synced files and directories."""
    found: set[int] = set()
    monkeypatch.setattr(Disk, "flush", lambda _self, descriptor: found.add(os.fstat(descriptor).st_ino))
    return found


def inodes(directory: Path) -> set[int]:
    return {path.stat().st_ino for path in (directory, *directory.rglob("*"))}


def test_the_files_of_a_log_directory(tmp_path: Path, synced: set[int]) -> None:
    make(tmp_path / "logs", {"meta.properties": b"version=1\n", "points": b"old"})
    (tmp_path / "out").mkdir()
    write_root_files({"points": b"new"}, str(tmp_path / "out"), str(tmp_path / "logs"))
    write_root_files({"marks": b"0"}, str(tmp_path / "out"))
    assert len(inodes(tmp_path / "out")) == 4
    assert inodes(tmp_path / "out") <= synced
