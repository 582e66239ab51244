"""``kseg retain`` of a partition and the checkpoint beside it, killed at any system call: repeated, or taken back."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from changes.failing import CountingDisk, Killed, KillingDisk
from retention.partitions import RETENTION

from kseg.changes import apply, log_directory, log_directory_undo, settle, undo
from kseg.cli import changing
from kseg.cli.main import run

from .command import Kseg

pytestmark = pytest.mark.slow

NAME = "r-delrec-0"
ARGUMENTS = ("retain", "--quiet", "--log-start-offset", "60")
MODULES = (apply, changing, log_directory, log_directory_undo, settle, undo)
EXPECTED = "0\n2\nother 0 1\nr-delrec 0 60\n"


def make(target: Path) -> Path:
    shutil.copytree(RETENTION / "before" / NAME, target / NAME)
    (target / "log-start-offset-checkpoint").write_text("0\n1\nother 0 1\n")
    return target


def everything(directory: Path) -> dict[str, bytes]:
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def outcome(directory: Path) -> dict[str, bytes]:
    """All but the records of what was done, which name times."""
    return {name: data for name, data in everything(directory).items() if ".kseg-" not in name}


def on(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    with monkeypatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "Disk", lambda: disk)
        with pytest.raises((SystemExit, Killed)):
            run([str(argument) for argument in arguments])


def points(count: int) -> Iterator[int]:
    yield from range(0, count, max(1, count // 25))


def test_repeated_it_ends_as_if_it_had_not_been_killed(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, disk = make(tmp_path / "whole"), CountingDisk()
    before = everything(whole)
    on(disk, monkeypatch, *ARGUMENTS, whole / NAME)
    after = outcome(whole)
    assert after["log-start-offset-checkpoint"].decode() == EXPECTED
    assert len(disk.calls) > 30
    for at in points(len(disk.calls)):
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
    for at in points(len(disk.calls)):
        logs = make(tmp_path / f"killed-{at}")
        assert kseg(*ARGUMENTS, logs / NAME).status == 0
        on(KillingDisk(at), monkeypatch, "undo", "-q", logs / NAME)
        assert kseg("undo", "-q", logs).status in (0, 3), at  # 3: nothing is left to be put back
        assert everything(logs) == before, at
        shutil.rmtree(logs)
