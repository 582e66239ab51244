"""A terminal gets an entry of the findings table as a panel; a pipe gets the lines that scripts know."""

import re
from typing import Any

import pytest

from kseg.findings.table import KINDS
from kseg.output.findings.text import explain
from output.feeding import MemorySink

STYLES = re.compile(r"\x1b\[[0-9;]*m")


def shown(codes: list[str], is_terminal: bool, color: str = "auto") -> list[str]:
    sink: Any = MemorySink(is_terminal)
    explain(codes, "text", sink, color)
    lines: list[str] = sink.lines
    return lines


def words(lines: list[str]) -> list[str]:
    return re.sub("[╭╮╰╯│─]", " ", " ".join(lines)).split()


@pytest.mark.parametrize("columns", [50, 80, 120, 200])
def test_panels_have_the_words_of_the_lines(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines, panels = shown([*KINDS], is_terminal=False), shown([*KINDS], is_terminal=True, color="never")
    assert sum(line.startswith("╭─ ") for line in panels) == len(KINDS)
    assert {len(line) for line in panels} == {min(columns, 120)}
    assert words(panels) == words(lines)


def test_a_panel_has_the_color_of_the_severity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    panel = shown(["crc-mismatch"], is_terminal=True)
    assert "\x1b[31m" in panel[0]
    assert [STYLES.sub("", line) for line in panel] == shown(["crc-mismatch"], is_terminal=True, color="never")
