"""The sink never passes unsafe characters to a terminal, wherever its buffer ends."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import unicodedata
from pathlib import Path

import pytest

from kseg.output.sink import Sink, open_sink, temporary_file

TEXT = "é\u009b2J\x7f\u0080ü\u00ff \u202eabc\u2069 \U0001d173€😀".encode()
FORMATS = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cf", "Zl", "Zp")]


def on_a_terminal(text: bytes, step: int, expected: bytes) -> bytes:
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    sink = Sink(theirs, "terminal")
    for at in range(0, len(text), step):
        sink.write_view(memoryview(text)[at : at + step])
    sink.write(b".")
    shown = b""
    while len(shown) < len(expected):
        shown += os.read(ours, 100)
    os.close(ours)
    os.close(theirs)
    return shown


@pytest.mark.parametrize("step", [1, 2, 3, len(TEXT)])
def test_a_terminal_is_given_no_controls(step: int) -> None:
    expected = "é\\u009b2J\\u007f\\u0080üÿ \\u202eabc\\u2069 \\ud834\\udd73€😀.".encode()
    assert on_a_terminal(TEXT, step, expected) == expected


def test_a_terminal_is_given_no_format_characters() -> None:
    for char in FORMATS:
        expected = json.dumps(char)[1:-1].encode() + b"."
        assert on_a_terminal(char.encode(), 1, expected) == expected


def test_invalid_utf8_reaches_a_terminal() -> None:
    text = b"\xe2\x80 \xf3\xa0\x81\xe2 \xff\x80"
    assert on_a_terminal(text, 1, text + b".") == text + b"."


def test_a_file_is_given_every_byte(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        sink = Sink(file.fileno(), "out")
        sink.write(TEXT)
        sink.flush()
    assert (tmp_path / "out").read_bytes() == TEXT


def test_a_file_is_synced_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, bytes]] = []
    sync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        calls.append(("sync", os.pread(descriptor, 100, 0)))
        sync(descriptor)

    def record_replace(source: str, target: str) -> None:
        calls.append(("replace", Path(source).read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    with open_sink(str(tmp_path / "lines")) as sink:
        sink.write(b"all of it")
    assert calls == [("sync", b"all of it"), ("replace", b"all of it")]


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
    with temporary_file(str(directory)) as (_, path):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child, os.path.exists(path)


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
