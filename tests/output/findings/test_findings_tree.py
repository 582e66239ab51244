"""A terminal gets the findings of a file as a tree; a pipe gets one line for each finding."""

import re
from typing import Any

import pytest

from kseg.output.findings.text import TextFindings
from kseg.output.notices import Notices
from kseg.verification.report import Finding, Report
from output.feeding import MemorySink

STYLES = re.compile(r"\x1b\[[0-9;]*m")
MESSAGE = "the batch ends [red] behind the end of the file, so that nothing after its header can be read"
FINDINGS = [
    Finding("bad-length", "error", "/logs/[bold]orders-0/0.log", 140, 61, 7, MESSAGE),
    Finding("index-missing", "info", "/logs/[bold]orders-0/0.log", None, None, None, "there is no 0.index"),
    Finding("bad-length", "error", "/logs/orders-1/0.log", 0, 5, None, MESSAGE),
]


def shown(is_terminal: bool, count: int = 3) -> list[str]:
    sink: Any = MemorySink(is_terminal)
    printer = TextFindings(sink, "auto")
    for finding in FINDINGS[:count]:
        printer.show(finding)
    printer.finish(Report(lambda _: None), Notices(quiet=True))
    lines: list[str] = sink.lines
    return lines


def test_a_pipe_gets_one_line_each() -> None:
    assert shown(is_terminal=False)[:2] == [
        f"/logs/[bold]orders-0/0.log:140: error: bad-length: {MESSAGE} [offset 7] (61 bytes)",
        "/logs/[bold]orders-0/0.log: info: index-missing: there is no 0.index",
    ]


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_a_terminal_gets_a_tree_for_each_file(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = shown(is_terminal=True)
    assert any("\x1b[1;31merror" in line for line in lines)
    plain = [STYLES.sub("", line) for line in lines]
    assert max(map(len, plain)) <= columns
    assert [line for line in plain if line.startswith("/")] == ["/logs/[bold]orders-0/0.log", "/logs/orders-1/0.log"]
    assert [line[0] for line in plain if line[0] in "├└"] == ["├", "└", "└"]
    said = " ".join(line.strip("├─└│ ") for line in plain)
    assert said.count(MESSAGE) == 2
    assert "error bad-length at byte 140, offset 7, 61 bytes" in said


def test_the_last_file_is_drawn_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    lines = shown(is_terminal=True, count=1)
    assert lines[0] == "/logs/[bold]orders-0/0.log"
    assert lines[1].startswith("└── error bad-length at byte 140")
