"""A changing command without a command line: planned as data, applied later, and refused where files have changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from changes.driver.cutting import SIZE, Cutting
from changes.holding import held
from cli.test_undo import CLEAN, LOG, POINTS, files
from kseg.changes.driver.command import ChangeOptions, Recording, run
from kseg.changes.journal import Known
from kseg.changes.lock import locked
from kseg.changes.plan import Plan
from kseg.errors import RequestError
from kseg.segment.files import CLEAN_SHUTDOWN


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    for name in ("dplain-0", "dplain-1"):
        shutil.copytree(CLEAN, directory / name)
    (directory / "meta.properties").write_bytes(b"version=1\n")
    (directory / POINTS).write_bytes(b"0\n1\ndplain 0 150\n")
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
