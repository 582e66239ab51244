"""``kseg retain`` of a partition and the checkpoint beside it, killed at any system call: repeated, or taken back."""

import shutil
from pathlib import Path

import pytest

from changes.failing import CountingDisk, KillingDisk
from cli.command import Kseg
from cli.dying import everything, on, outcome, points
from retention.partitions import RETENTION

pytestmark = pytest.mark.slow

NAME = "r-delrec-0"
ARGUMENTS = ("retain", "--quiet", "--log-start-offset", "60")
EXPECTED = "0\n2\nother 0 1\nr-delrec 0 60\n"


def make(target: Path) -> Path:
    shutil.copytree(RETENTION / "before" / NAME, target / NAME)
    (target / "log-start-offset-checkpoint").write_text("0\n1\nother 0 1\n")
    return target


def test_repeated_it_ends_as_if_it_had_not_been_killed(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, disk = make(tmp_path / "whole"), CountingDisk()
    before = everything(whole)
    on(disk, monkeypatch, *ARGUMENTS, whole / NAME)
    after = outcome(whole)
    assert after["log-start-offset-checkpoint"].decode() == EXPECTED
    assert len(disk.calls) > 30
    for at in points(len(disk.calls), 25):
        logs = make(tmp_path / f"killed-{at}")
        on(KillingDisk(at), monkeypatch, *ARGUMENTS, logs / NAME)
        assert kseg(*ARGUMENTS, logs / NAME).status == 0, at
        assert outcome(logs) == after, at
        assert kseg("undo", "-q", logs / NAME).status == 0, at
        assert everything(logs) == before, at
        shutil.rmtree(logs)


def test_taking_back_can_be_killed_too(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "source")
    before = everything(source)
    disk = CountingDisk()
    assert kseg(*ARGUMENTS, source / NAME).status == 0
    counted = Path(shutil.copytree(source, tmp_path / "counted"))
    on(disk, monkeypatch, "undo", "-q", counted / NAME)
    assert everything(counted) == before
    for at in points(len(disk.calls), 25):
        logs = make(tmp_path / f"killed-{at}")
        assert kseg(*ARGUMENTS, logs / NAME).status == 0
        on(KillingDisk(at), monkeypatch, "undo", "-q", logs / NAME)
        assert kseg("undo", "-q", logs).status in (0, 3), at  # 3: nothing is left to be put back
        assert everything(logs) == before, at
        shutil.rmtree(logs)
