"""Signals that end a process wait until the files are in one state."""

import os
import signal
from pathlib import Path
from threading import Event, Thread

import pytest

from changes.trees import contents, make, quarantine, tree
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.plan import Plan
from kseg.changes.quarantine import changes

FILES = {"a.log": b"batches" * 100, "a.index": b"stale", "b.log": b"later" * 20, "c.log": bytes(range(250)) * 80}


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
