"""Commands that people copy from messages: bash gets each word unchanged, from one line on any terminal."""

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.errors import KsegError
from kseg.output.notices import Notices
from kseg.quantities import named_path, quoted, shell_line

ODD = ["caf\udce9", "two\nlines", "quo'te", "a blank", "", "-n", "$(x)", "b\\a'\t", "~", "\u202e", "café", "\udce9f0"]


def words_in_bash(line: str) -> list[bytes]:
    printed = subprocess.run(
        ["bash", "-c", b"printf '%s\\0' " + os.fsencode(line)], capture_output=True, check=True
    ).stdout
    return printed.split(b"\0")[:-1]


def test_bash_gets_each_word() -> None:
    line = shell_line(ODD)
    assert line.isprintable()
    assert words_in_bash(line) == [os.fsencode(word) for word in ODD]


@pytest.mark.hypothesis
@given(st.binary(max_size=12).map(lambda name: name.replace(b"\0", b"x")))
def test_bash_gets_any_name(name: bytes) -> None:
    assert words_in_bash(quoted(os.fsdecode(name))) == [name]


def test_other_names_stay_as_they_are() -> None:
    assert shell_line(["kseg", "recover", "/a/orders-0", "a b"]) == "kseg recover /a/orders-0 'a b'"
    assert [named_path(path) for path in ("-x-0", "-", "a-0")] == ["./-x-0", "-", "a-0"]


@pytest.mark.parametrize("columns", ["", "40", "80"])
def test_a_command_is_a_line_of_its_own(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", printed)
    if columns:
        monkeypatch.setattr(printed, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", columns)
    command = ["kseg", "undo", f"/{'x y' * 40}\n"]
    error = KsegError.with_command(f"{'long ' * 30}and\nodd: undo it with", shell_line(command))
    notices = Notices("never")
    notices.error(error)
    notices.warning("next:", shell_line(command))
    assert [line for line in printed.getvalue().split("\n") if "undo /" in line or "$'" in line] == [
        f"    {shell_line(command)}"
    ] * 2
    assert str(error).endswith(f"undo it with {shell_line(command)}")
