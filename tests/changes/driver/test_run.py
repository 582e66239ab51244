"""A changing command without a command line: planned as data, applied later, and refused where files have changed;
changes that an earlier command has left unfinished."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from changes.driver.cutting import CLEAN, LOG, SIZE, Cutting, files, make_logs
from changes.failing import QUICK
from changes.holding import held
from changes.trees import plan_of
from kseg.changes import apply, manifest
from kseg.changes.driver.command import ChangeOptions, Recording, interrupted_changes, run
from kseg.changes.driver.undoing import UndoOptions, complete, undo
from kseg.changes.journal import DONE, UNDOING, Journal, Known
from kseg.changes.lock import locked
from kseg.changes.manifest import COMMITTED
from kseg.changes.plan import Plan
from kseg.errors import RequestError, StoppedHalfwayError
from kseg.segment.files import CLEAN_SHUTDOWN


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = make_logs(tmp_path / "logs")
    (directory / CLEAN_SHUTDOWN).write_bytes(b"")
    return directory


def test_a_partition_that_cannot_be_planned_keeps_no_other_from_being_done(logs: Path) -> None:
    shutil.copytree(CLEAN, logs / "dplain-2")
    recording = Recording()
    outcome = run([str(logs), "-"], Cutting, ChangeOptions(), recording)
    assert outcome.exit_status == 3
    assert sorted(outcome.errors) == ["-", str(logs / "dplain-2")]
    assert recording.errors[0] == f"{logs}/dplain-2: cannot be cut"
    assert [(logs / f"dplain-{k}" / LOG).stat().st_size > SIZE for k in range(3)] == [False, False, True]


def test_nothing_is_changed_while_a_broker_holds_the_lock(logs: Path) -> None:
    before = files(logs)
    with held(logs):
        outcome, dry = run([str(logs)], Cutting, ChangeOptions(), Recording()), Recording()
        assert run([str(logs)], Cutting, ChangeOptions(is_dry=True), dry).exit_status == 1
    assert "a running broker, or another kseg, holds the log directory" in dry.warnings[0]
    assert dry.plans
    assert outcome.exit_status == 3
    assert "holds the log directory" in str(outcome.errors[str(logs)])
    assert files(logs).keys() - before.keys() <= {".lock"}
    with locked(str(logs)):
        assert run([str(logs)], Cutting, ChangeOptions(takes_lock=False), Recording()).has_changed


def test_wrong_options_end_the_run(logs: Path) -> None:
    class Refusing(Cutting):
        def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
            raise RequestError("--cut: name a partition")

    with pytest.raises(RequestError, match="name a partition"):
        run([str(logs)], Refusing, ChangeOptions(), Recording())


@pytest.mark.parametrize("is_single", [True, False])
def test_an_incomplete_change_is_undone(is_single: bool, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before, path = files(logs), str(logs / "dplain-0" if is_single else logs)
    monkeypatch.setattr(apply, "_resize", failing)
    assert run([path], Cutting, ChangeOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    assert complete([path], UndoOptions(), Recording()).exit_status == StoppedHalfwayError.exit_status
    recording = Recording()
    assert undo([path], UndoOptions(), recording).exit_status == 0
    assert "cannot be completed: Input/output error" in recording.warnings[0]
    assert files(logs) == before


def interrupt(partition: Path, number: int) -> None:
    (path,) = partition.rglob(f"{number}/manifest.json")
    path.write_text(path.read_text().replace(f'"{manifest.DONE}"', f'"{COMMITTED}"'))


def test_interrupted_changes_of_partitions(logs: Path) -> None:
    for size in (800, 500):
        apply.apply(plan_of(logs / "dplain-1", ("truncate", LOG, size, "is cut")), f"recover to {size}")
    assert interrupted_changes(str(logs), False) == []
    interrupt(logs / "dplain-1", 1)
    interrupt(logs / "dplain-1", 2)
    text = f"{logs / 'dplain-1'}: 'recover to {{}}' was interrupted, and would be completed first"
    both = [text.format(500), text.format(800)]
    assert interrupted_changes(str(logs), False) == both
    assert interrupted_changes(str(logs / "dplain-1"), True) == both
    assert interrupted_changes(str(logs / "dplain-0"), True) == []


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("", ["'retain' was interrupted here"]),
        (UNDOING, ["the undo of 'retain' was interrupted, and would be completed first"]),
        (DONE, []),
    ],
)
def test_an_interrupted_change_of_a_log_directory(state: str, told: list[str], logs: Path) -> None:
    journal = Journal(str(logs), 1, "retain", 1_790_000_000_000, True, {})
    journal.note(QUICK, **({"state": state} if state else {}))
    assert interrupted_changes(str(logs), False) == [f"{logs}: {text}" for text in told]
    assert interrupted_changes(str(logs / "dplain-0"), True) == []
