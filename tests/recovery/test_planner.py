"""Many partitions on several cores: the same plans as one after the other, in the same order."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from kseg.errors import KsegError
from kseg.recovery import planner
from kseg.recovery.planner import MIN_PARTITIONS, Outcome, PartitionStart, plan_partitions
from kseg.recovery.result import Recovery
from kseg.recovery.workspace import Workspace
from recovery.partitions import START, TESTDATA, TRANSACTIONS

DAMAGED = TESTDATA / "damaged" / "4.3.1-last-flip-body"


@pytest.fixture
def tasks(tmp_path: Path) -> list[PartitionStart]:
    sources = [TRANSACTIONS, TESTDATA / "log-directories/4.3.1/logs/dplain-0", *DAMAGED.glob("**/d*-0")]
    assert len(sources) >= 3
    found = []
    for number in range(MIN_PARTITIONS + 3):
        path = tmp_path / f"orders-{number}"
        shutil.copytree(sources[number % len(sources)], path)
        found.append((str(path), replace(START, interval_bytes=2048)))
    return found


def steps(outcome: Outcome) -> object:
    assert isinstance(outcome, Recovery)
    return [
        (step.action, step.file, step.size, step.removed, b"".join(map(bytes, step.pieces)))  # type: ignore[arg-type]
        for step in outcome.plan.steps
    ]


def outcomes(tasks: list[PartitionStart], jobs: int) -> list[Outcome]:
    with closing(plan_partitions(tasks, jobs)) as found:
        return list(found)


def test_processes_make_the_same_plans(tasks: list[PartitionStart]) -> None:
    alone, together = outcomes(tasks, 1), outcomes(tasks, 2)
    assert [one.directory for one in together if isinstance(one, Recovery)] == [path for path, _ in tasks]
    assert any(one.cuts for one in together if isinstance(one, Recovery))
    for one, other in zip(alone, together, strict=True):
        assert isinstance(one, Recovery)
        assert isinstance(other, Recovery)
        assert one.plan, "all indexes are rebuilt with another interval"
        assert (steps(one), one.cuts, one.next_offset) == (steps(other), other.cuts, other.next_offset)


def test_large_partitions_are_planned_here(tasks: list[PartitionStart], monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    monkeypatch.setattr(planner, "_is_small", lambda path: not path.endswith(("-3", "-7")))
    real = planner.plan_partition
    monkeypatch.setattr(planner, "plan_partition", lambda path, start: planned.append(path) or real(path, start))
    assert list(map(steps, outcomes(tasks, 2))) == list(map(steps, outcomes(tasks, 1)))
    assert [path[-2:] for path in planned[:2]] == ["-3", "-7"]


def test_a_partition_that_cannot_be_planned_keeps_its_place(tasks: list[PartitionStart]) -> None:
    bad = Path(tasks[4][0])
    (bad / "00000000000000000000.log").rename(bad / "elsewhere")
    (bad / "00000000000000000000.log").symlink_to(bad / "elsewhere")
    found = outcomes(tasks, 2)
    assert [number for number, one in enumerate(found) if isinstance(one, KsegError)] == [4]
    assert "symbolic link" in str(found[4])


def test_too_much_for_memory_goes_to_a_file(tasks: list[PartitionStart], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(map(steps, outcomes(tasks, 1)))
    monkeypatch.setattr(planner, "SPILL_BYTES", -1)
    monkeypatch.setattr(Workspace, "made_bytes", 0)
    found = outcomes(tasks, 2)
    assert list(map(steps, found)) == expected
    assert all(
        isinstance(piece, memoryview)
        for one in found
        if isinstance(one, Recovery)
        for step in one.plan.steps
        for piece in step.pieces
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a forked process has the replaced function")
def test_a_process_that_dies_is_told(tasks: list[PartitionStart], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "plan_partition", lambda *_: os._exit(9))
    with pytest.raises(KsegError, match=r"has died.*nothing was changed"):
        outcomes(tasks, 2)


def test_closed_early_it_waits_for_its_processes(tasks: list[PartitionStart]) -> None:
    found: Iterator[Outcome] = plan_partitions(tasks, 2)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert not active_children()
