"""Changing commands, and their undo, ended at any system call by a kill or a failing disk: a second run completes
them, and undo restores every byte."""

import errno
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kseg as kseg_package
from changes.failing import CountingDisk, FailingDisk, KillingDisk
from cleaner.partitions import PAIRS
from cli.command import PLAIN, Kseg, files
from cli.dying import on, outcome, points
from cli.test_full_disk import expired
from cli.test_recover_disk_space import flip_many_and_move, harmed

pytestmark = pytest.mark.slow

TRANSACTIONS = PAIRS[2]
MAX_POINTS = 30
SPARE = "SPARE"
"""In arguments: a directory on another file system."""


def damaged(target: Path) -> Path:
    """In each segment a batch is broken, and one lies in another segment."""
    return harmed(target, flip_many_and_move)


def cleanable(target: Path) -> Path:
    TRANSACTIONS.copy(target)
    return target / TRANSACTIONS.name


def retained(target: Path) -> Path:
    """Some of its first records are in files that are about to be deleted, and in the quarantine."""
    partition = expired(target)
    kseg_package.retain(partition, log_start_offset=60).apply()
    return partition


@dataclass(frozen=True)
class Sweep:
    """``is_dense``: each call of the last half is struck, where files are rewritten one by one. ``expected``: a file
    beside the partition, and its lines afterwards."""

    make: Callable[[Path], Path]
    arguments: tuple[object, ...]
    is_dense: bool = False
    expected: tuple[str, str] = ("", "")

    @property
    def keeps(self) -> bool:
        return "--no-quarantine" not in self.arguments and self.arguments[0] != "erase"

    def made(self, folder: Path) -> Path:
        folder.mkdir()
        return self.make(folder)

    def enders(self, calls: list[str]) -> Iterator[CountingDisk]:
        """Disks that kill the command, or fail once or for good, at some of its calls."""
        assert len(calls) > 30
        dense = range(len(calls) // 2, len(calls)) if self.is_dense else ()
        for at in sorted({*points(len(calls), MAX_POINTS), *dense}):
            yield KillingDisk(at)
            yield FailingDisk(at, (errno.ENOSPC, errno.EIO)[at % 2], stays=at % 3 == 0)


SALVAGE = ("recover", "--quiet", "--mode", "salvage")
FILL = ("recover", "--quiet", "--from-replica", PLAIN)
COMPACT = ("compact", "--quiet", *TRANSACTIONS.options_with("--segment-bytes", "4096"))
"""Each new segment is a change of its own if replaced ones are kept elsewhere or not at all."""
RETAIN = ("retain", "--quiet", "--log-start-offset", "60")
CLEANED = ("cleaner-offset-checkpoint", f"0\n1\ne-txn 0 {TRANSACTIONS.checkpoint_after}\n")
STARTS = ("log-start-offset-checkpoint", "0\n2\nother 0 1\nr-delrec 0 60\n")
SWEEPS = {
    "salvage": Sweep(damaged, SALVAGE, is_dense=True),
    "salvage without a quarantine": Sweep(damaged, (*SALVAGE, "--no-quarantine"), is_dense=True),
    "fill": Sweep(damaged, FILL, is_dense=True),
    "compact": Sweep(cleanable, ("compact", "--quiet", *TRANSACTIONS.options_with()), expected=CLEANED),
    "compact without a quarantine": Sweep(cleanable, (*COMPACT, "--no-quarantine"), expected=CLEANED),
    "compact with a quarantine elsewhere": Sweep(cleanable, (*COMPACT, "--quarantine", SPARE), expected=CLEANED),
    "retain": Sweep(expired, RETAIN, expected=STARTS),
    "erase": Sweep(retained, ("erase", "--quiet", "--offsets", "30..80")),
}


@pytest.mark.parametrize("sweep", SWEEPS.values(), ids=SWEEPS)
def test_it_is_completed_or_taken_back(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: Sweep, request: pytest.FixtureRequest
) -> None:
    arguments = [request.getfixturevalue("spare") if word == SPARE else word for word in sweep.arguments]
    whole, disk = sweep.made(tmp_path / "whole"), CountingDisk()
    before = files(whole.parent)
    on(disk, monkeypatch, *arguments, whole)
    after = outcome(whole.parent)
    name, lines = sweep.expected
    assert after != before
    assert not name or after[name].decode() == lines
    for ender in sweep.enders(disk.calls):
        partition = sweep.made(tmp_path / "struck")
        on(ender, monkeypatch, *arguments, partition)
        kseg(*arguments, partition)
        assert outcome(partition.parent) == after, ender.at
        if sweep.arguments[0] == "erase":
            assert not any(b"key-00040" in data for data in files(partition.parent).values()), ender.at
        if sweep.keeps:
            assert kseg("undo", "-q", partition).status == 0, ender.at
            assert files(partition.parent) == before, ender.at
        shutil.rmtree(partition.parent)


def test_a_certificate_names_what_both_runs_have_erased(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two partitions of a log directory; one has records to erase in other files, too."""

    (tmp_path / "logs").mkdir()
    shutil.copytree(PLAIN, retained(tmp_path / "logs").parent / PLAIN.name)

    def made(folder: Path) -> tuple[object, ...]:
        shutil.copytree(tmp_path / "logs", folder)
        return "erase", "--quiet", "--offsets", "40..70", "--certificate", folder / "certificate", folder

    def certified(folder: Path) -> list[dict[str, Any]]:
        assert not (folder / "certificate.unfinished").exists()
        found = json.loads((folder / "certificate").read_text())
        assert found["failed"] == []
        return [{**row, "directory": ""} for row in found["partitions"]]

    disk = CountingDisk()
    on(disk, monkeypatch, *made(tmp_path / "whole"))
    wanted = certified(tmp_path / "whole")
    assert [len(each["otherFiles"]) for each in wanted] == [0, 2]
    assert all(row["records"] for each in wanted for row in (each, *each["otherFiles"]))
    for at in points(len(disk.calls), MAX_POINTS):
        arguments = made(tmp_path / "struck")
        on(KillingDisk(at), monkeypatch, *arguments)
        assert kseg(*arguments).status == 0, at
        assert certified(tmp_path / "struck") == wanted, at
        shutil.rmtree(tmp_path / "struck")


@pytest.mark.parametrize("sweep", [SWEEPS["salvage"], SWEEPS["retain"]], ids=["salvage", "retain"])
def test_the_way_back_is_completed(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: Sweep) -> None:
    whole, disk = sweep.made(tmp_path / "whole"), CountingDisk()
    before = files(whole.parent)
    kseg(*sweep.arguments, whole)
    on(disk, monkeypatch, "undo", "-q", whole)
    assert files(whole.parent) == before
    for ender in sweep.enders(disk.calls):
        partition = sweep.made(tmp_path / "struck")
        kseg(*sweep.arguments, partition)
        on(ender, monkeypatch, "undo", "-q", partition)
        for path in (partition, partition.parent):  # the log directory keeps a record of the change of both
            kseg("undo", "-q", path)
        assert files(partition.parent) == before, ender.at
        shutil.rmtree(partition.parent)
