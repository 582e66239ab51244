"""A terminal gets a summary as a panel; a pipe gets the lines that scripts know. Both show the same facts."""

import re
from pathlib import Path
from typing import Any

import pytest

from kseg.formats.rows import Scratch
from kseg.output.summary import SummaryPrinter
from kseg.output.terminal import Paint
from output.feeding import TESTDATA, MemorySink, feed

SEGMENT = sorted((TESTDATA / "kafka-4.3.1" / "clients" / "librdkafka-txn-0").glob("*.log"))[0]
DAMAGED = sorted((TESTDATA / "damaged" / "4.3.1-last-flip-body" / "dplain-0").glob("*.log"))[0]
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def shown(path: Path, is_terminal: bool, color: str = "auto") -> list[str]:
    sink: Any = MemorySink(is_terminal)
    feed(SummaryPrinter(sink, Scratch(), paint=Paint(color, is_terminal)), path)
    lines: list[str] = sink.lines
    return lines


def words(lines: list[str]) -> list[str]:
    return re.sub("[╭╮╰╯│─█▏▎▍▌▋▊▉▐▕]", " ", " ".join(lines)).split()


@pytest.mark.parametrize("path", [SEGMENT, DAMAGED], ids=["intact", "damaged"])
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_panel_shows_the_facts_of_the_lines(monkeypatch: pytest.MonkeyPatch, path: Path, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines, panel = shown(path, is_terminal=False), shown(path, is_terminal=True, color="never")
    assert panel[0].startswith("╭─ ")
    assert panel[-1].startswith("╰─")
    assert {len(line) for line in panel} == {min(columns, 120)}
    assert not any("\x1b" in line for line in panel)
    assert words(panel[1:]).count("share") == 1
    size = next(number for number, line in enumerate(panel) if " bytes)" in line)
    assert "".join(line.strip("│ ") for line in panel[1:size]) == str(path)
    assert [word for word in words(panel[size:]) if word != "share"] == words([lines[0].split(": ", 1)[1], *lines[1:]])


def test_a_panel_has_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    panel = shown(DAMAGED, is_terminal=True)
    assert any("\x1b[31m" in line for line in panel)
    assert {len(STYLES.sub("", line)) for line in panel} == {80}


def test_colored_lines_end_with_no_stray_reset() -> None:
    """As ``--color always`` in a pipe has them: only the path and what is wrong are colored."""
    lines = shown(SEGMENT, is_terminal=False, color="always")
    assert ["\x1b" in line for line in lines] == [True] + [False] * (len(lines) - 1)
