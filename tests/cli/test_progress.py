"""Progress on a terminal: drawn while a command works, and erased."""

import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import LOGS, TESTDATA, read_terminal

TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
SEGMENT = TRANSACTIONS / "00000000000000001187.log"


def on_terminal(arguments: list[str], interrupt: bool = False) -> tuple[bytes, int]:
    """What kseg writes to standard error where that is a terminal, and its exit status."""
    ours, theirs = pty.openpty()
    code = "import kseg.output.progress as p; p.DELAY_SECONDS = p.INTERVAL_SECONDS = 0; p.PIECE_BYTES = 4096\n"
    code += "from kseg.__main__ import main; main()"
    null = subprocess.DEVNULL
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stderr=theirs, stdout=null, stdin=null, env=environment)
    os.close(theirs)
    signals = [signal.SIGINT] * interrupt

    def watch(written: bytes) -> None:
        if signals and b"%" in written:
            process.send_signal(signals.pop())

    return read_terminal(ours, watch), process.wait(60)


def test_progress_is_drawn_and_erased() -> None:
    written, status = on_terminal(["stats", str(TRANSACTIONS)])
    assert status == 0
    assert b"100%" in written
    assert written.endswith(b"\r\x1b[2K")


@pytest.mark.parametrize("mode", ["broker", pytest.param("salvage", marks=pytest.mark.slow)])
def test_a_recovery_of_a_log_directory_shows_progress(mode: str, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    written, status = on_terminal(["recover", "--dry-run", "--mode", mode, str(directory)])
    assert status in (0, 1)
    assert b"100%" in written
    quiet, _ = on_terminal(["recover", "--dry-run", "--quiet", "--mode", mode, str(directory)])
    assert b"%" not in quiet


def test_quiet_silences_progress() -> None:
    assert on_terminal(["stats", "--quiet", str(TRANSACTIONS)]) == (b"", 0)


def test_an_interrupt_leaves_no_progress_behind(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(SEGMENT.read_bytes() * 4000)
    written, status = on_terminal(["stats", str(path)], interrupt=True)
    assert status == 130
    assert written.rindex(b"\r\x1b[2K") > written.rindex(b"%")
    assert written.rstrip().endswith(b"interrupted")
