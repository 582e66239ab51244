"""Fixtures: the command line, and a second disk."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Kseg, caller


@pytest.fixture
def kseg(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Kseg:
    """Runs a command line of kseg in this process: ``kseg("dump", path)``."""
    monkeypatch.delenv("COLUMNS", raising=False)  # of the terminal that the tests are run in
    return caller(capfdbinary)


@pytest.fixture
def spare(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=shm) as found:
        yield Path(found)
