"""Real SIGKILL: a process dies at a system call, and another one completes the change."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

import kseg
from changes.trees import contents, make, quarantine, tree
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.log_directory_undo import complete_interrupted
from kseg.changes.plan import Plan
from kseg.changes.quarantine import changes
from kseg.changes.undo import last_change, undo

FILES = {"a.log": b"batches" * 100, "a.index": b"stale", "b.log": b"later" * 20, "c.log": bytes(range(250)) * 80}
WANTED = {
    "a.log": b"batches" * 10,
    "a.index": b"rebuilt",
    "epochs": b"0\n",
    "c.log": FILES["c.log"][:9000] + b"mended" + FILES["c.log"][9100:],
}
PROGRAM = """
import os, signal, sys
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan, Range

at, calls = int(sys.argv[2]), 0

def mortal(real):
    def method(self, *arguments, **named):
        global calls
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        return real(self, *arguments, **named)
    return method

for name in "make_directory create write copy_range link rename unlink truncate flush flush_all".split():
    setattr(Disk, name, mortal(getattr(Disk, name)))
plan = Plan(sys.argv[1])
plan.delete("b.log", "behind a cut")
plan.truncate("a.log", 70, "is damaged")
plan.write("a.index", [b"rebuilt"], "rebuilt")
plan.write("c.log", [Range("c.log", 0, 9000), b"mended", Range("c.log", 9100, 10900)], "is damaged")
plan.write("epochs", [b"0\\n"], "rebuilt")
apply(plan, "test")
print(calls)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parent.parent)}


def run(directory: Path, at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", PROGRAM, str(directory), str(at)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("apart", [12, pytest.param(3, marks=pytest.mark.slow)])
def test_a_process_that_is_killed_at_a_system_call(apart: int, tmp_path: Path) -> None:
    make(tmp_path / "old", FILES)
    make(tmp_path / "whole", FILES)
    done = run(tmp_path / "whole", -1)
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(tmp_path / "whole") == WANTED
    calls, outcomes = int(done.stdout), []
    for at in sorted({*range(0, calls, apart), calls - 1}):
        directory = tmp_path / str(at)
        make(directory, FILES)
        assert run(directory, at).returncode == -signal.SIGKILL
        complete_interrupted(str(directory))
        found = contents(directory)
        assert found in (FILES, WANTED)
        outcomes.append(found == WANTED)
        if changes(str(directory)):
            undo(last_change(str(directory)))
        assert tree(directory) == tree(tmp_path / "old")
    assert outcomes == sorted(outcomes)
    assert {True, False} == set(outcomes)


def test_signals_wait_until_the_files_are_in_one_state(tmp_path: Path) -> None:
    """Ctrl-C during the steps ends the command after them."""

    class Interrupted(Disk):
        def unlink(self, path: str) -> None:
            super().unlink(path)
            os.kill(os.getpid(), signal.SIGINT)

    make(tmp_path, FILES)
    plan = Plan(str(tmp_path))
    plan.delete("b.log", "behind a cut")
    plan.truncate("a.log", 70, "is damaged")
    done = Event()
    Thread(target=done.wait, daemon=True).start()  # the system may deliver a signal to any thread
    with pytest.raises(KeyboardInterrupt):
        apply(plan, "test", disk=Interrupted())
    done.set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert contents(tmp_path) == {"a.log": b"batches" * 10, "a.index": b"stale", "c.log": FILES["c.log"]}
    assert [change.state for change in changes(str(tmp_path))] == ["done"]


def test_an_interrupt_before_the_steps_leaves_nothing(tmp_path: Path) -> None:
    class Interrupted(Disk):
        def create(self, path: str) -> int:
            raise KeyboardInterrupt

    make(tmp_path / "orders-0", FILES)
    before = tree(tmp_path / "orders-0")
    plan = Plan(str(tmp_path / "orders-0"))
    plan.truncate("a.log", 70, "is damaged")
    with pytest.raises(KeyboardInterrupt):
        apply(plan, "test", disk=Interrupted())
    assert tree(tmp_path / "orders-0") == before
    assert not quarantine(tmp_path / "orders-0").exists()
