"""``kseg recover`` that remakes several segments of a partition, ended at any system call: completed, or taken back."""

import errno
import shutil
from pathlib import Path

import pytest

from changes.failing import CountingDisk, FailingDisk, KillingDisk
from cli.command import TESTDATA, Kseg
from cli.dying import everything, on, outcome, points
from recovery.damages import Segments, read, write

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
SALVAGE = ("recover", "--quiet", "--mode", "salvage")
FILL = ("recover", "--quiet", "--from-replica", PLAIN)
MAX_POINTS = 30


def damage(segments: Segments) -> None:
    """A batch of each segment is broken, and one lies in another segment."""
    for chunks in segments.values():
        chunks[1] = chunks[1][:80] + bytes([chunks[1][80] ^ 1]) + chunks[1][81:]
    segments[0].insert(3, segments[46].pop(3))


def make(target: Path) -> Path:
    partition = Path(shutil.copytree(PLAIN, target / PLAIN.name))
    segments = read(partition)
    damage(segments)
    write(partition, segments)
    return partition


def enders(calls: list[str]) -> list[CountingDisk]:
    """Disks that end a command, or fail once or for good, at some of its calls: each of the last half, where files are
    remade one after the other."""
    found: list[CountingDisk] = []
    for at in sorted({*points(len(calls), MAX_POINTS), *range(len(calls) // 2, len(calls))}):
        found += [KillingDisk(at), FailingDisk(at, (errno.ENOSPC, errno.EIO)[at % 2], stays=at % 3 == 0)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [SALVAGE, FILL, (*SALVAGE, "--no-quarantine")])
def test_it_is_completed_or_taken_back(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    whole, disk = make(tmp_path / "whole"), CountingDisk()
    before = everything(whole)
    on(disk, monkeypatch, *arguments, whole)
    after = outcome(whole)
    assert after != before
    keeps = "--no-quarantine" not in arguments
    for ender in enders(disk.calls):
        partition = make(tmp_path / "killed")
        on(ender, monkeypatch, *arguments, partition)
        kseg(*arguments, partition)
        assert outcome(partition) == after, ender.at
        if keeps:
            assert kseg("undo", "-q", partition).status == 0, ender.at
            assert everything(partition) == before, ender.at
        shutil.rmtree(partition.parent)


@pytest.mark.slow
def test_the_way_back_is_completed(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, disk = make(tmp_path / "whole"), CountingDisk()
    before = everything(whole)
    kseg(*SALVAGE, whole)
    on(disk, monkeypatch, "undo", "-q", whole)
    assert everything(whole) == before
    for ender in enders(disk.calls):
        partition = make(tmp_path / "killed")
        kseg(*SALVAGE, partition)
        on(ender, monkeypatch, "undo", "-q", partition)
        kseg("undo", "-q", partition)
        assert everything(partition) == before, ender.at
        shutil.rmtree(partition.parent)
