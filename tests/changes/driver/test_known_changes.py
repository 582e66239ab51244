"""Undo without a command line: the last change is undone, known changes are listed, and kept bytes are freed."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from changes.driver.cutting import SIZE, Cutting
from cli.test_undo import CLEAN, LOG, files
from kseg.changes import apply
from kseg.changes.driver.path_run import run
from kseg.changes.driver.planner import ChangeOptions, Recording
from kseg.changes.driver.undoing import Purged, UndoOptions, complete, known_changes, purge_changes, undo
from kseg.errors import StoppedHalfwayError


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition that a change has truncated; ``before`` beside it is what it was."""
    path = tmp_path / "logs/dplain-0"
    shutil.copytree(CLEAN, path)
    shutil.copytree(CLEAN, tmp_path / "before")
    assert run([str(path)], Cutting, ChangeOptions(), Recording()).has_changed
    return path


def test_a_dry_undo_plans_and_changes_nothing(partition: Path) -> None:
    before, recording = files(partition), Recording()
    outcome = undo([str(partition)], UndoOptions(is_dry=True), recording)
    assert (outcome.exit_status, outcome.has_changed) == (1, False)
    assert [step.file for plan in recording.plans for step in plan.steps] == [LOG]
    assert files(partition) == before


def test_undo_restores_the_files_and_a_second_one_fails(partition: Path, tmp_path: Path) -> None:
    outcome = undo([str(partition)], UndoOptions(), Recording())
    assert (outcome.exit_status, outcome.has_changed) == (0, True)
    assert (partition / LOG).read_bytes() == (tmp_path / "before" / LOG).read_bytes()
    recording = Recording()
    assert undo([str(partition)], UndoOptions(), recording).failed == [str(partition)]
    assert len(recording.errors) == 1


def test_changes_are_known_until_they_are_purged(partition: Path) -> None:
    found, status = known_changes([str(partition)], Recording())
    kept = (CLEAN / LOG).stat().st_size - SIZE
    assert status == 0
    assert [(change.command, change.kept_bytes) for change in found] == [("cut", kept)]
    purged: list[Purged] = []
    assert purge_changes([str(partition)], UndoOptions(is_dry=True), Recording(), purged.append) == 1
    assert purge_changes([str(partition)], UndoOptions(), Recording(), purged.append) == 0
    assert purged == [Purged(str(partition), kept, 1)] * 2
    assert known_changes([str(partition)], Recording()) == ([], 0)


def test_a_change_that_is_not_there_cannot_be_purged(partition: Path) -> None:
    recording = Recording()
    assert purge_changes([str(partition)], UndoOptions(), recording, lambda _: None, 9) == 3
    assert recording.errors == [f"{partition}: there is no finished change 9"]


def test_there_is_nothing_to_complete(partition: Path) -> None:
    outcome = complete([str(partition)], UndoOptions(), Recording())
    assert (outcome.exit_status, outcome.has_changed) == (0, False)


@pytest.mark.parametrize("is_single", [True, False])
def test_a_change_that_cannot_be_completed_is_undone(
    is_single: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    logs = tmp_path / "logs"
    for name in ("dplain-0", "dplain-1"):
        shutil.copytree(CLEAN, logs / name)
    (logs / "meta.properties").write_bytes(b"version=1\n")
    (logs / ".lock").touch()
    before, path = files(logs), str(logs / "dplain-0" if is_single else logs)
    monkeypatch.setattr(apply, "_cut", failing)
    assert run([path], Cutting, ChangeOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    assert complete([path], UndoOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    recording = Recording()
    assert undo([path], UndoOptions(), recording).exit_status == 0
    assert "cannot be completed: Input/output error" in recording.warnings[0]
    assert files(logs) == before
