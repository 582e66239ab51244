"""``kseg compact`` of a partition and the checkpoint beside it, killed at any system call: repeated, or taken back."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from changes.failing import CountingDisk, KillingDisk
from cleaner.partitions import PAIRS, checkpoint
from cli.command import Kseg
from cli.dying import everything, on, outcome, points

pytestmark = pytest.mark.slow

TRANSACTIONS = PAIRS[2]
ARGUMENTS = ("compact", "--quiet")


def make(target: Path) -> Path:
    target.mkdir()
    TRANSACTIONS.copy(target)
    return target


@pytest.fixture
def spare(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=shm) as found:
        yield Path(found)


@pytest.mark.parametrize("quarantine", ["beside", "nowhere", "elsewhere"])
def test_repeated_it_ends_as_if_it_had_not_been_killed(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: Path, quarantine: str
) -> None:
    """Elsewhere and nowhere each new segment is a change of its own."""
    small = ("--segment-bytes", "4096")
    elsewhere = ("--quarantine", str(spare), *small)
    options = {"beside": (), "nowhere": ("--no-quarantine",), "elsewhere": elsewhere}[quarantine]
    options = tuple(TRANSACTIONS.options_with(*options))
    whole, disk, name = make(tmp_path / "whole"), CountingDisk(), TRANSACTIONS.name
    before = everything(whole)
    on(disk, monkeypatch, *ARGUMENTS, *options, whole / name)
    after = outcome(whole)
    assert checkpoint(whole, name) == TRANSACTIONS.checkpoint_after
    assert len(disk.calls) > 30
    for at in points(len(disk.calls), 40):
        logs = make(tmp_path / f"killed-{at}")
        on(KillingDisk(at), monkeypatch, *ARGUMENTS, *options, logs / name)
        assert kseg(*ARGUMENTS, *options, logs / name).status == 0, at
        assert outcome(logs) == after, at
        if quarantine != "nowhere":
            assert kseg("undo", "-q", logs / name).status == 0, at
            assert everything(logs) == before, at
        shutil.rmtree(logs)
