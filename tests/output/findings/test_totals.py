"""The totals of a verification: a panel where standard error is a terminal, otherwise one line."""

import io
import re
from contextlib import redirect_stderr

import pytest

from kseg.output.findings.text import show_totals
from kseg.output.notices import Color, Notices
from kseg.verification.report import Report

STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.TextIOWrapper):
    """Standard error that is a terminal."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8")

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        return self._bytes.getvalue().decode()


def shown(report: Report, color: Color = "auto", quiet: bool = False) -> str:
    with redirect_stderr(Terminal()) as terminal:
        show_totals(report, Notices(color, quiet))
    return terminal.text


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
    lines = shown(report("bad-length", "index-missing", not_judged=2), "never").splitlines()
    assert lines[0].startswith("╭─ 1 error ")
    assert max(map(len, lines)) <= width
    words = " ".join("".join(lines[1:-1]).replace("│", " ").split())
    assert words == "files 3 (1.5 KiB) errors 1 batches 1,200 warnings 1 records 34,567 infos 0 not judged 2"


@pytest.mark.parametrize(
    ("codes", "title", "color"),
    [
        ((), "no errors", "32"),
        (("index-missing",), "no errors", "33"),
        (("bad-length", "bad-length"), "2 errors", "31"),
    ],
)
def test_the_title_has_the_errors(codes: tuple[str, ...], title: str, color: str) -> None:
    head = shown(report(*codes)).splitlines()[0]
    assert STYLES.sub("", head).startswith(f"╭─ {title} ─")
    assert f"\x1b[{color}m╭" in head


def test_the_title_has_what_was_not_checked() -> None:
    made = report()
    made.failures.append("/logs/orders-1: permission denied")
    assert "no errors, not all could be checked" in shown(made)


def test_quiet_totals_are_left_out() -> None:
    assert shown(report("bad-length"), quiet=True) == ""


def test_a_pipe_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_totals(report("bad-length", not_judged=1), Notices())
    assert capsys.readouterr().err == (
        "kseg: files: 3 (1.5 KiB), batches: 1200, records: 34567; errors: 1, warnings: 0, infos: 0; "
        "files not judged: 1\n"
    )
