"""A terminal gets the findings of a file as a tree; a pipe gets one line for each finding."""

from contextlib import redirect_stderr

import pytest

from kseg.findings.table import KINDS
from kseg.output.findings import TextFindings, put_explanations, show_totals
from kseg.output.notices import Color, Notices
from kseg.output.progress import Progress
from kseg.verification.report import Finding, Report
from output.feeding import STYLES, MemorySink, Terminal, words

MESSAGE = "the batch ends [red] behind the end of the file, so that nothing after its header can be read"
FINDINGS = [
    Finding("bad-length", "error", "/logs/[bold]orders-0/0.log", 140, 61, 7, MESSAGE),
    Finding("index-missing", "info", "/logs/[bold]orders-0/0.log", None, None, None, "there is no 0.index"),
    Finding("bad-length", "error", "/logs/orders-1/0.log", 0, 5, None, MESSAGE),
]


def shown(is_terminal: bool, count: int = 3) -> list[str]:
    sink = MemorySink(is_terminal)
    printer = TextFindings(sink, Notices(quiet=True), Progress(None, True), "auto")
    for finding in FINDINGS[:count]:
        printer.show(finding)
    printer.finish(Report(lambda _: None))
    return sink.lines


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


def totals_shown(report: Report, color: Color = "auto", quiet: bool = False) -> str:
    with redirect_stderr(Terminal()) as terminal:
        show_totals(report, Notices(color, quiet))
    return terminal.getvalue()


def report(*codes: str, not_judged: int = 0) -> Report:
    made = Report(lambda _finding: None)
    made.totals.files, made.totals.bytes, made.totals.batches, made.totals.records = 3, 1536, 1200, 34567
    made.totals.not_judged = not_judged
    for code in codes:
        made.add(code, "/logs/orders-0/0.log", "of this test")
    return made


@pytest.fixture(autouse=True)
def colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_gets_a_panel(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = totals_shown(report("bad-length", "index-missing", not_judged=2), "never").splitlines()
    assert lines[0].startswith("╭─ 1 error ")
    assert max(map(len, lines)) <= width
    assert (
        " ".join(words(lines[1:-1]))
        == "files 3 (1.5 KiB) errors 1 batches 1,200 warnings 1 records 34,567 infos 0 not judged 2"
    )


@pytest.mark.parametrize(
    ("codes", "title", "color"),
    [
        ((), "no errors", "32"),
        (("index-missing",), "no errors", "33"),
        (("bad-length", "bad-length"), "2 errors", "31"),
    ],
)
def test_the_title_has_the_errors(codes: tuple[str, ...], title: str, color: str) -> None:
    head = totals_shown(report(*codes)).splitlines()[0]
    assert STYLES.sub("", head).startswith(f"╭─ {title} ─")
    assert f"\x1b[{color}m╭" in head


def test_what_was_not_checked_is_in_the_title_and_quiet_totals_are_left_out() -> None:
    made = report()
    made.failures.append("/logs/orders-1: permission denied")
    assert "no errors, not all could be checked" in totals_shown(made)
    assert totals_shown(made, quiet=True) == ""


def explained(codes: list[str], is_terminal: bool, color: str = "auto") -> list[str]:
    sink = MemorySink(is_terminal)
    put_explanations(codes, "text", sink, color)
    return sink.lines


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [50, 80, 120, 200])
def test_panels_have_the_words_of_the_lines(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines, panels = explained([*KINDS], is_terminal=False), explained([*KINDS], is_terminal=True, color="never")
    assert sum(line.startswith("╭─ ") for line in panels) == len(KINDS)
    assert {len(line) for line in panels} == {min(columns, 120)}
    assert words(panels) == words(lines)


def test_a_panel_has_the_color_of_the_severity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    panel = explained(["crc-mismatch"], is_terminal=True)
    assert "\x1b[31m" in panel[0]
    assert [STYLES.sub("", line) for line in panel] == explained(["crc-mismatch"], is_terminal=True, color="never")
