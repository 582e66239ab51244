"""``kseg compact`` of a partition and the checkpoint beside it, killed at any system call: repeated, or taken back."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from changes.failing import CountingDisk, Killed, KillingDisk
from cleaner.partitions import PAIRS, checkpoint

from kseg.changes import apply, log_directory, log_directory_undo, settle, staging, undo
from kseg.cli import changing
from kseg.cli.main import run

from .command import Kseg

pytestmark = pytest.mark.slow

TRANSACTIONS = PAIRS[2]
MODULES = (apply, changing, log_directory, log_directory_undo, settle, staging, undo)
ARGUMENTS = ("compact", "--quiet", *TRANSACTIONS.options)


def make(target: Path) -> Path:
    target.mkdir()
    TRANSACTIONS.copy(target)
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
    yield from range(0, count, max(1, count // 40))


@pytest.fixture
def spare(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=shm) as found:
        yield Path(found)


@pytest.mark.parametrize("manner", ["beside", "nowhere", "elsewhere"])
def test_repeated_it_ends_as_if_it_had_not_been_killed(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path, manner: str
) -> None:
    """Elsewhere and nowhere each new segment is a change of its own."""
    small = ("--segment-bytes", "4096")
    options = {"beside": (), "nowhere": ("--no-quarantine",), "elsewhere": ("--quarantine", str(spare), *small)}[manner]
    whole, disk, name = make(tmp_path / "whole"), CountingDisk(), TRANSACTIONS.name
    before = everything(whole)
    on(disk, monkeypatch, *ARGUMENTS, *options, whole / name)
    after = outcome(whole)
    assert checkpoint(whole, name) == TRANSACTIONS.checkpoint_after
    assert len(disk.calls) > 30
    for at in points(len(disk.calls)):
        logs = make(tmp_path / f"killed-{at}")
        on(KillingDisk(at), monkeypatch, *ARGUMENTS, *options, logs / name)
        assert kseg(*ARGUMENTS, *options, logs / name).status == 0, at
        assert outcome(logs) == after, at
        if manner != "nowhere":
            assert kseg("undo", "-q", logs / name).status == 0, at
            assert everything(logs) == before, at
        shutil.rmtree(logs)
