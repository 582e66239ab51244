"""Partitions that are changed together by several processes: the same results, also if these are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kseg
from changes import test_log_directory as changing
from changes.failing import QUICK
from changes.trees import contents, make, plan_of
from kseg.changes import apply as applying
from kseg.changes.apply import Keeping, apply_all
from kseg.changes.manifest import DONE, Change
from kseg.changes.plan import Plan
from kseg.changes.quarantine import changes
from kseg.changes.undo import complete_interrupted_in_log_directory
from kseg.errors import KsegError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked")

PROGRAM = """
import os, pathlib, signal, sys, time
from changes import test_log_directory
from kseg.changes import apply
from kseg.changes.apply import Keeping
from kseg.changes.disk import Disk

apply.MIN_SHARED_STEPS, apply.usable_cores = 1, lambda: 2
at, calls, parent = int(sys.argv[2]), 0, os.getpid()

def deadly(real):
    def method(self, *arguments, **named):
        global calls
        calls += os.getpid() != parent
        if calls == at:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return real(self, *arguments, **named)
    return method

for name in sys.argv[4].split():
    setattr(Disk, name, deadly(getattr(Disk, name)))
test_log_directory.command(pathlib.Path(sys.argv[1]), Disk(), Keeping(sys.argv[3] == "keeps"), at_once=3)
"""


def partitions(folder: Path) -> list[Plan]:
    plans = []
    for name in ("a-0", "b-0", "c-0"):
        make(folder / name, {"0.log": name.encode() * 100, "0.index": b"stale", "1.log": b"later"})
        steps = ("write", "0.index", [b"rebuilt"], "rebuilt"), ("delete", "1.log", "is behind a cut")
        plans.append(plan_of(folder / name, ("truncate", "0.log", 30, "is damaged"), *steps))
    return plans


def test_processes_have_the_results_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = partitions(tmp_path / "one")
    assert all(isinstance(change, Change) for change in apply_all(wanted, "test", group="1.1", disk=QUICK))
    plans = partitions(tmp_path / "several")
    (tmp_path / "several" / "b-0" / "0.index").write_bytes(b"changed since")
    monkeypatch.setattr(applying, "MIN_SHARED_STEPS", 1)
    monkeypatch.setattr(applying, "usable_cores", lambda: 2)
    first, failed, last = apply_all(plans, "test", group="1.1")
    assert isinstance(failed, KsegError)
    assert "has changed since it was read; nothing was changed" in str(failed)
    for name, change in (("a-0", first), ("c-0", last)):
        directory = tmp_path / "several" / name
        assert contents(directory) == contents(tmp_path / "one" / name)
        [kept] = changes(str(directory))
        assert isinstance(change, Change)
        assert (change.state, change.made, change.after) == (DONE, kept.made, kept.after)


def test_directories_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [type(change) for change in apply_all(partitions(Path("logs")), "test", group="1.1")] == [Change] * 3


@pytest.mark.sampled(9)
@pytest.mark.parametrize("keeps", ["keeps", "keeps nothing"])
@pytest.mark.parametrize("at, calls", [(1, "create"), (2, "write"), (1, "truncate"), (2, "truncate unlink")])
def test_they_end_with_a_killed_parent(at: int, calls: str, keeps: str, tmp_path: Path) -> None:
    directory, keeping = tmp_path / "logs", Keeping(keeps == "keeps")
    changing.make_log_directory(tmp_path / "undisturbed")
    changing.command(tmp_path / "undisturbed", QUICK, keeping)
    changing.make_log_directory(directory)
    path = os.pathsep.join((str(Path(kseg.__file__).parent.parent), str(Path(changing.__file__).parent.parent)))
    command = [sys.executable, "-P", "-c", PROGRAM, str(directory), str(at), keeps, calls]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == -signal.SIGKILL
    if not changing.is_over(directory, wanted := changing.all_files(tmp_path / "undisturbed")):
        changing.command(directory, QUICK, keeping)
    complete_interrupted_in_log_directory(str(directory), QUICK)
    assert changing.all_files(directory) == wanted
