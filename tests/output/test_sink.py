"""The sink: what a terminal must not be given, wherever it is cut."""

import os
import pty
import termios
from pathlib import Path

import pytest

from kseg.output.sink import Sink

TEXT = "é\u009b2J\x7f\u0080ü\u00ff".encode()


@pytest.mark.parametrize("step", [1, 2, 3, len(TEXT)])
def test_a_terminal_is_given_no_controls(step: int) -> None:
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    sink = Sink(theirs, "terminal")
    for at in range(0, len(TEXT), step):
        sink.write_view(memoryview(TEXT)[at : at + step])
    sink.write(b".")
    expected = "é\\u009b2J\\u007f\\u0080üÿ.".encode()
    shown = b""
    while len(shown) < len(expected):
        shown += os.read(ours, 100)
    os.close(ours)
    os.close(theirs)
    assert shown == expected


def test_a_file_is_given_every_byte(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        sink = Sink(file.fileno(), "out")
        sink.write(TEXT)
        sink.flush()
    assert (tmp_path / "out").read_bytes() == TEXT
