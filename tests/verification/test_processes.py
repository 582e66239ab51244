"""Partitions on several processes: the same findings in the same order, whatever happens to the processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.command import flip
from kseg.errors import KsegError
from kseg.node.log_directory import BrokerState
from kseg.runtime import process_pool
from kseg.runtime.process_pool import Child, Tickets
from kseg.segment.survey import FULL
from kseg.stores.windows import Buffers
from kseg.verification import directory_tree
from kseg.verification.directory_tree import CheckedPartition, Task, judge_in_processes
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from verification.log_directories import NOW_MS, REAL, TESTDATA, check, copied
from verification.partitions import Found

TASKS = [Task(str(path), BrokerState()) for path in sorted((TESTDATA / "kafka-4.3.1" / "clients").glob("*-0"))]
SETTINGS = CheckSettings(FULL, NOW_MS, 3)
LIVE = replace(SETTINGS, is_live=True)
needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="only a forked process sees the change")


def damaged(tmp_path: Path, partitions: int) -> Path:
    """A log directory with a damaged batch in each of its partitions."""
    logs = copied(tmp_path)
    path = logs / "dplain-0" / f"{46:020}.log"
    flip(path, 9400)
    for number in range(1, partitions):
        shutil.copytree(logs / "dplain-0", logs / f"dplain-{number}")
    return logs


def together(tasks: list[Task], shown: list[Finding] | None = None) -> list[CheckedPartition]:
    report = Report(([] if shown is None else shown).append)
    return list(judge_in_processes(tasks, SETTINGS, report))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are started as soon as there is anything to do for them."""
    monkeypatch.setattr(directory_tree, "SINGLE_PROCESS_SECONDS", -1.0)
    monkeypatch.setattr(directory_tree, "_is_worth_more", lambda _seconds, _done, _left: True)


@pytest.mark.usefixtures("at_once")
def test_findings_and_totals_are_those_of_one_process(tmp_path: Path) -> None:
    logs = damaged(tmp_path, 5)
    alone = check(logs, jobs=1)
    unshown = alone.report.unshown()
    for jobs in (2, 3):
        found = check(logs, jobs=jobs)
        assert found.findings == alone.findings
        assert found.report.totals == alone.report.totals
        assert found.report.unshown() == unshown
    assert alone.report.totals.codes["crc-mismatch"] == 5


@pytest.mark.usefixtures("at_once")
def test_topic_ids_come_back_from_processes(tmp_path: Path) -> None:
    logs = damaged(tmp_path, 3)
    shutil.copytree(REAL / "dplain-0", logs / "ghost-0")
    assert check(logs, jobs=2).codes.count("topic-id-mismatch") == 4


@pytest.fixture(params=["fork", "spawn"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the processes that are made, in either of the ways that systems offer."""
    ids: list[int] = []
    if request.param == "fork" and sys.platform != "linux":
        pytest.skip("only Linux's libraries survive a fork")
    monkeypatch.setattr(process_pool, "START_METHOD", request.param)

    def noted(*arguments: Any) -> Child:
        child = Child(*arguments)
        ids.append(child.process_id)
        return child

    monkeypatch.setattr(process_pool, "Child", noted)
    return ids


def is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_outcomes_keep_the_order_of_the_tasks(made: list[int]) -> None:
    many = TASKS * 8
    outcomes = together(many)
    assert [outcome.directory for outcome in outcomes] == [task.directory for task in many]
    assert len(made) == SETTINGS.jobs


def more_findings_than_a_pipe_holds(logs: Path) -> list[Path]:
    """Partitions of segments with a byte between two intact batches, again and again: hundreds of findings each."""
    batch = (TESTDATA / "speed" / "tiny.log").read_bytes()
    size = 12 + int.from_bytes(batch[8:12], "big")
    folders = [logs / f"t-{number}" for number in range(6)]
    for folder in folders:
        folder.mkdir(parents=True)
        for base in range(40):
            damaged = b"".join(
                bytes(8)[:-1] + bytes([i]) + batch[8:size] + b"\xff" * 40 for i in range(base, base + 20)
            )
            (folder / f"{base:020}.log").write_bytes(damaged)
    return folders


@pytest.mark.slow
def test_more_findings_than_a_pipe_holds(tmp_path: Path) -> None:
    folders = more_findings_than_a_pipe_holds(tmp_path)
    shown: list[Finding] = []
    outcomes = together([Task(str(folder), BrokerState()) for folder in folders], shown)
    assert len(shown) > 3000
    numbers = [Path(finding.file).relative_to(tmp_path).parts[0] for finding in shown]
    assert numbers == sorted(numbers)
    assert len(outcomes) == 6


def test_progress_is_told_of_all_bytes() -> None:
    told: list[int] = []
    outcomes = list(judge_in_processes(TASKS, SETTINGS, Report(lambda _: None, (), told.append)))
    assert sum(told) == sum(outcome.totals.bytes for outcome in outcomes) > 0


def test_a_partition_that_cannot_be_read_is_told_and_the_others_judged(tmp_path: Path) -> None:
    gone = Task(str(tmp_path / "gone-0"), BrokerState())
    outcomes = together([TASKS[0], gone, TASKS[1]])
    assert [outcome.failure is None for outcome in outcomes] == [True, False, True]
    assert "gone-0" in (outcomes[1].failure or "")


@needs_fork
@pytest.mark.parametrize(
    ("act", "error", "told"),
    [
        (lambda *_: os.kill(os.getpid(), signal.SIGKILL), KsegError, "ended before it was done"),
        (lambda *_: 1 // 0, ZeroDivisionError, "by zero"),
    ],
    ids=["killed", "broken"],
)
def test_what_ends_a_process_is_told(
    act: Callable[..., object], error: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kseg.verification.directory_tree.judge_task", act)
    with pytest.raises(error, match=told):
        together(TASKS)


@needs_fork
def test_a_process_that_is_killed_between_two_partitions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold the lock that the others wait for."""

    def killed(tickets: Tickets) -> int | None:
        with tickets._taken.get_lock():
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    monkeypatch.setattr(Tickets, "take", killed)
    with pytest.raises(KsegError, match="ended before it was done"):
        together(TASKS)


KILLED = """
import os, sys
from kseg.cli.main import run
from kseg.runtime import process_pool
from kseg.verification import directory_tree

directory_tree._is_worth_more = lambda seconds, done, left: True
make = process_pool.Child
def noted(*arguments):
    child = make(*arguments)
    print("child", child.process_id, flush=True)
    return child
process_pool.Child = noted
directory_tree.Report.take = lambda *_: os.kill(os.getpid(), 9)
run(["verify", "--jobs", "3", sys.argv[1]])
"""


@pytest.mark.slow
def test_no_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    """Workers of a process that gets SIGKILL find that nobody reads what they send."""
    more_findings_than_a_pipe_holds(tmp_path / "logs")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "logs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=TESTDATA.parent)
    ids = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("child ")]
    assert (done.returncode, len(ids)) == (-signal.SIGKILL, 3), done.stderr
    for _ in range(600):
        if not any(map(is_there, ids)):
            return
        time.sleep(0.1)
    raise AssertionError("a worker is still there")


def test_processes_end_with_whoever_stops_asking(made: list[int]) -> None:
    outcomes = judge_in_processes(TASKS * 50, replace(SETTINGS, jobs=2), Report(lambda _: None))
    next(outcomes)
    assert len(made) == 2
    assert all(map(is_there, made))
    outcomes.close()  # type: ignore[attr-defined]
    assert not any(map(is_there, made))


INTERRUPTED = """
import signal, sys
from kseg.cli import verify as cli
from kseg.cli.main import run
from kseg.verification import directory_tree

directory_tree._is_worth_more = lambda seconds, done, left: sys.argv[2] != "1" and done == 0
shown = 0
make = cli._printer
def printer_of(*arguments):
    printer = make(*arguments)
    show = printer.show
    def count(finding):
        global shown
        show(finding)
        shown += 1
        if shown == 7:
            signal.raise_signal(signal.SIGINT)
    printer.show = count
    return printer
cli._printer = printer_of
run(["verify", *sys.argv[1:]])
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_interrupted_check_tells_what_it_has_found(tmp_path: Path, form: str, jobs: str) -> None:
    logs = damaged(tmp_path, 9)
    command = [sys.executable, "-c", INTERRUPTED, "--jobs", jobs, "--severity", "info", "--format", form, str(logs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=TESTDATA.parent)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    findings = [line for line in done.stdout.splitlines() if "dplain" in line and '"summary"' not in line]
    assert len(findings) == 7, done.stdout
    assert "crc-mismatch" in findings[2]
    if form == "json":
        assert '"errors":6,"warnings":0,"infos":2,"ok":false' in done.stdout.splitlines()[-1]
    else:
        assert "errors: 6, warnings: 0, infos: 2" in done.stderr


def test_a_partition_beside_a_broker_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not found again is no damage, and real damage is reported once."""
    partition, found, judge = damaged(tmp_path, 1) / "dplain-0", Found(), directory_tree.judge_partition
    calls: list[str] = []
    progress: list[int] = []
    found.report.advance = progress.append

    def judged(directory: str, settings: CheckSettings, report: Report, *rest: Any) -> Any:
        calls.append(directory)
        if len(calls) == 1:
            report.add("producer-snapshot-damaged", f"{directory}/{116:020}.snapshot", "it is being written")
            report.failures.append(f"{directory}/{0:020}.log: No such file or directory")
        return judge(directory, settings, report, *rest)

    monkeypatch.setattr(directory_tree, "judge_partition", judged)
    task = Task(str(partition), BrokerState())
    outcome = directory_tree.judge_task(task, LIVE, found.report, Buffers())
    assert sum(progress) == outcome.totals.bytes  # not counted again
    assert (outcome.failure, found.codes, len(calls)) == (None, ["crc-mismatch"], 2)
    assert (outcome.totals.errors, dict(+Counter(outcome.totals.codes))) == (1, {"crc-mismatch": 1})
    assert outcome.totals.files == check(partition).report.totals.files


def test_a_partition_that_a_broker_deletes_meanwhile(tmp_path: Path) -> None:
    found = Found()
    task = Task(str(tmp_path / "gone-0"), BrokerState())
    outcome = directory_tree.judge_task(task, LIVE, found.report, Buffers())
    assert (outcome.failure, found.codes) == (None, [])
