"""A temporary file is removed by the process that created it, and by no other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.output.sink import open_sink, temporary_file

ENDED_IN_A_BLOCK = """
import os, signal, sys
from kseg.output.sink import temporary_file
from kseg.signals import raise_on_signals
raise_on_signals()
with temporary_file(sys.argv[1]):
    os.kill(os.getpid(), int(sys.argv[2]))
"""


def test_a_terminated_child_does_not_remove_its_parents_file(tmp_path: Path) -> None:
    from kseg.runtime.process_pool import Child
    from kseg.signals import raise_on_signals

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    raise_on_signals()
    try:
        with open_sink(str(tmp_path / "out")) as sink:
            sink.write(b"begun, ")
            children: list[Child] = []
            for _ in range(5):
                source, target = os.pipe()
                children.append(Child(lambda _send, source=source: os.read(source, 1), children))  # type: ignore[misc]
                os.close(source)
                children[-1].end()
                os.close(target)
            sink.write(b"done")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (tmp_path / "out").read_bytes() == b"begun, done"


def _forked_in_the_block(directory: Path) -> tuple[int, bool]:
    """Returns the child's process id (0 in the child), and whether the file existed after the child left the block."""
    with temporary_file(str(directory)) as made:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child, os.path.exists(made.path)


def test_a_forked_child_that_leaves_the_block_removes_no_file(tmp_path: Path) -> None:
    child, is_there = _forked_in_the_block(tmp_path)
    if not child:
        os._exit(0)
    assert is_there
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_the_file(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDED_IN_A_BLOCK, str(tmp_path), str(int(number))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert b"Terminated" in done.stderr
    assert list(tmp_path.iterdir()) == []
