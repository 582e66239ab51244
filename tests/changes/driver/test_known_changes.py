"""Undo without a command line: the last change is undone, known changes are listed, and kept bytes are freed."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from changes.driver.cutting import Cutting
from cli.test_undo import CLEAN, files
from kseg.changes import apply
from kseg.changes.driver.command import ChangeOptions, Recording, run
from kseg.changes.driver.undoing import UndoOptions, complete, undo
from kseg.errors import StoppedHalfwayError


@pytest.mark.parametrize("is_single", [True, False])
def test_an_incomplete_change_is_undone(is_single: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    logs = tmp_path / "logs"
    for name in ("dplain-0", "dplain-1"):
        shutil.copytree(CLEAN, logs / name)
    (logs / "meta.properties").write_bytes(b"version=1\n")
    (logs / ".lock").touch()
    before, path = files(logs), str(logs / "dplain-0" if is_single else logs)
    monkeypatch.setattr(apply, "_resize", failing)
    assert run([path], Cutting, ChangeOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    assert complete([path], UndoOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    recording = Recording()
    assert undo([path], UndoOptions(), recording).exit_status == 0
    assert "cannot be completed: Input/output error" in recording.warnings[0]
    assert files(logs) == before
