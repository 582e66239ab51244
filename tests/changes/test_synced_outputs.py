"""Each file that an output gets is synced, and so is its directory: a power cut after the command loses nothing."""

import os
from pathlib import Path

import pytest

from changes.trees import make
from kseg.changes.copies import write_copy, write_root_copy, write_root_files
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan, Range
from kseg.changes.resumable_output import resumable_output


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes of synced files and directories."""
    found: set[int] = set()
    monkeypatch.setattr(Disk, "flush", lambda _self, descriptor: found.add(os.fstat(descriptor).st_ino))
    return found


def inodes(directory: Path) -> set[int]:
    return {path.stat().st_ino for path in (directory, *directory.rglob("*"))}


def test_a_copy(tmp_path: Path, synced: set[int]) -> None:
    partition, output = tmp_path / "logs" / "orders-0", tmp_path / "out"
    make(partition, {"00.log": b"first", "00.index": b"stale", "10.log": b"last" * 20, "epochs": b"0", "kept": b"1"})
    output.mkdir()
    plan = Plan(str(partition))
    plan.write("00.index", [b"rebuilt", Range("epochs", 0, 1)], "rebuilt")
    plan.truncate("10.log", 40, "is damaged")
    write_copy(plan, str(output), Disk())
    hard_links = inodes(output) & inodes(partition)
    assert len(hard_links) <= 1
    assert inodes(output) - hard_links <= synced


def test_the_files_of_a_log_directory(tmp_path: Path, synced: set[int]) -> None:
    make(tmp_path / "logs", {"meta.properties": b"version=1\n", "points": b"old"})
    (tmp_path / "out").mkdir()
    write_root_copy(str(tmp_path / "logs"), {"points": b"new"}, str(tmp_path / "out"), Disk())
    write_root_files({"marks": b"0"}, str(tmp_path / "out"), Disk())
    assert len(inodes(tmp_path / "out")) == 4
    assert inodes(tmp_path / "out") <= synced


def test_a_resumable_output(tmp_path: Path, synced: set[int]) -> None:
    with resumable_output(str(tmp_path / "out"), {}, takes_lock=False) as output:
        with output.partition("a-0") as folder:
            output.finish_partition("a-0", folder, {})
        output.write_file("checkpoint", b"0\n0\n")
        assert inodes(tmp_path / "out") <= synced
        output.close()
    assert inodes(tmp_path / "out") <= synced
