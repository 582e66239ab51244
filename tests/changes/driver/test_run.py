"""A changing command without a command line: planned as data, applied later, and refused where files have changed."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from changes.driver.cutting import SIZE, Cutting
from cli.test_undo import CLEAN, LOG, POINTS, files
from kseg.changes.driver.path_run import check_unchanged, run
from kseg.changes.driver.planner import ChangeOptions, Recording
from kseg.changes.journal import Known
from kseg.changes.lock import locked
from kseg.changes.plan import Plan
from kseg.errors import PathError, RequestError
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


def test_a_dry_run_plans_and_changes_nothing(logs: Path) -> None:
    before = files(logs)
    planned = Recording()
    outcome = run([str(logs)], Cutting, ChangeOptions(is_dry=True), planned)
    assert files(logs) == before
    assert (outcome.exit_status, outcome.has_changed) == (1, False)
    steps = [step for plan in planned.plans for step in plan.steps]
    assert [(step.action, step.file) for step in steps] == [
        ("delete", CLEAN_SHUTDOWN),
        ("truncate", LOG),
        ("truncate", LOG),
        ("replace", POINTS),
    ]
    assert (steps[1].removed[0].position, steps[1].removed[0].records) == (SIZE, 16)
    assert [partition["directory"] for partition, _ in planned.summaries] == [
        str(logs / "dplain-0"),
        str(logs / "dplain-1"),
    ]


def test_a_plan_is_applied_and_then_empty(logs: Path) -> None:
    outcome = run([str(logs)], Cutting, ChangeOptions(), Recording())
    assert (outcome.exit_status, outcome.has_changed, outcome.is_dry) == (0, True, False)
    assert outcome.conclusion == ["2 partitions"]
    assert [(logs / name / LOG).stat().st_size for name in ("dplain-0", "dplain-1")] == [SIZE, SIZE]
    assert (logs / POINTS).read_bytes() == b"0\n1\ndplain 0 134\n"
    again = Recording()
    assert run([str(logs)], Cutting, ChangeOptions(), again).exit_status == 0
    assert not any(again.plans)


def test_applying_reports_what_is_kept(logs: Path) -> None:
    recording = Recording()
    run([str(logs / "dplain-1")], Cutting, ChangeOptions(), recording)
    assert [change.kept for change in recording.changes] == [f"{logs}/dplain-1/.kseg-quarantine/1/old"]


def test_a_file_that_has_changed_since_its_plan_is_noticed(logs: Path) -> None:
    planned = Recording()
    run([str(logs)], Cutting, ChangeOptions(is_dry=True), planned)
    check_unchanged(planned.plans)
    with (logs / "dplain-1" / LOG).open("ab") as log:
        log.write(b"more")
    with pytest.raises(PathError, match="has changed since the plan was made"):
        check_unchanged(planned.plans)


def test_a_partition_that_cannot_be_planned_keeps_no_other_from_being_done(logs: Path) -> None:
    shutil.copytree(CLEAN, logs / "dplain-2")
    recording = Recording()
    outcome = run([str(logs), "-"], Cutting, ChangeOptions(), recording)
    assert outcome.exit_status == 3
    assert outcome.failed == ["-", str(logs / "dplain-2")]
    assert recording.errors[0] == f"{logs}/dplain-2: cannot be cut"
    assert [(logs / f"dplain-{k}" / LOG).stat().st_size > SIZE for k in range(3)] == [False, False, True]


def test_nothing_is_changed_while_a_broker_holds_the_lock(logs: Path) -> None:

    hold = (
        "import sys; from kseg.changes.lock import locked\nwith locked(sys.argv[1]): print('held', flush=True); input()"
    )
    before = files(logs)
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(logs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "held\n"
        outcome, dry = run([str(logs)], Cutting, ChangeOptions(), Recording()), Recording()
        assert run([str(logs)], Cutting, ChangeOptions(is_dry=True), dry).exit_status == 1
        broker.communicate("\n")
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


def test_a_recording_can_be_replayed(logs: Path) -> None:
    first, second = Recording(), Recording()
    run([str(logs)], Cutting, ChangeOptions(), first)
    first.replay(second)
    assert second == first
    assert second.plans
    assert second.changes


def test_an_output_gets_the_result_and_the_paths_are_only_read(logs: Path, tmp_path: Path) -> None:
    before = files(logs)
    outcome = run([str(logs)], Cutting, ChangeOptions(output=str(tmp_path / "new")), Recording())
    assert (outcome.exit_status, outcome.has_changed) == (0, True)
    assert files(logs) == before
    assert (tmp_path / "new/dplain-0" / LOG).stat().st_size == SIZE
    assert (tmp_path / "new" / POINTS).read_bytes() == b"0\n1\ndplain 0 134\n"
