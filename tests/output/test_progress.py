"""Progress appears only on a terminal and only after a second, and is erased at the end."""

import io
import re
from contextlib import redirect_stderr, suppress

import pytest

from kseg.output.notices import Notices
from kseg.output.progress import Progress, progress_text
from output.feeding import Terminal


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("kseg.output.progress.monotonic", lambda: found.now)
    return found


def work(stream: io.StringIO, clock: Clock, seconds: float, quiet: bool = False) -> str:
    with redirect_stderr(stream), Progress(1000, quiet) as progress:
        for _ in range(10):
            clock.now += seconds / 10
            progress.advance(100)
    return stream.getvalue()


def test_a_long_pass_shows_a_line_and_takes_it_away(clock: Clock) -> None:
    written = work(Terminal(), clock, 5.0)
    assert "40%" in written.replace("\x1b", "")
    assert written.endswith("\r\x1b[2K")
    assert "\n" not in written


@pytest.mark.parametrize(("columns", "is_whole"), [("200", True), ("60", False)])
def test_the_file_name_is_cut_to_the_width(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, columns: str, is_whole: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with redirect_stderr(Terminal()) as stream, Progress(1000) as progress:
        progress.at("/var/lib/kafka/orders-0/00000000000000000042.log")
        clock.now += 2
        progress.advance(500)
    drawn = re.sub(r"\x1b\[[0-9;]*[mK]", "", stream.getvalue()).strip("\r")
    assert ("  orders-0/00000000000000000042.log" in drawn) == is_whole
    assert len(drawn) < int(columns)
    assert "50%" in drawn


def test_nothing_is_shown_for_a_short_pass_without_a_terminal_or_if_quiet(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert work(Terminal(), clock, 0.9) == ""
    assert work(io.StringIO(), clock, 5.0) == ""
    assert work(Terminal(), clock, 5.0, quiet=True) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert work(Terminal(), clock, 5.0) == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_line_is_erased_after_an_error(clock: Clock, error: type[BaseException]) -> None:
    stream = Terminal()
    with suppress(error), redirect_stderr(stream), Progress(1000) as progress:
        clock.now += 2
        progress.advance(10)
        assert stream.getvalue()
        raise error
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_it_is_drawn_a_few_times_a_second(clock: Clock) -> None:
    with redirect_stderr(Terminal()) as stream, Progress(10_000) as progress:
        for _ in range(1000):
            clock.now += 0.01
            progress.advance(1)
    assert 20 < stream.getvalue().count("\r") < 60


def test_an_erased_line_is_drawn_again(clock: Clock) -> None:
    with redirect_stderr(Terminal()) as stream, Progress(100) as progress:
        clock.now += 2
        progress.advance(10)
        progress.erase()
        assert stream.getvalue().endswith("\r\x1b[2K")
        clock.now += 1
        progress.advance(10)
        assert "20%" in stream.getvalue()


def test_a_closed_terminal_stops_it_alone(clock: Clock) -> None:
    with redirect_stderr(Terminal()) as stream, Progress(100) as progress:
        stream.close()
        clock.now += 2
        progress.advance(10)
        progress.advance(10)
    assert stream.closed


@pytest.mark.parametrize("end", ["close", "detach"])
def test_a_stream_that_was_ended_shows_none(end: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    getattr(stream, end)()
    with redirect_stderr(stream):
        assert not Progress(None).is_on


@pytest.mark.parametrize(
    "done, total, seconds, shown",
    [
        (1 << 20, 4 << 20, 1.0, [" 25%", "1.0 MiB of 4.0 MiB", "1.0 MiB/s", "0:03 left"]),
        (1 << 20, None, 2.0, ["1.0 MiB", "512.0 KiB/s"]),
        (0, 100, 2.0, ["  0%", "0 B/s"]),
        (200, 100, 2.0, ["100%"]),
        (1, 1 << 60, 1.0, ["99:59:59 left"]),
    ],
)
def test_the_line(done: int, total: int | None, seconds: float, shown: list[str]) -> None:
    line = progress_text(done, total, seconds)
    assert [part for part in shown if part not in line] == []
    assert len(line) <= 80


def test_the_line_is_erased_before_each_notice(capsys: pytest.CaptureFixture[str]) -> None:
    seen, notices = list[str](), Notices()
    notices.before = lambda: seen.append(capsys.readouterr().err)
    for text in ("one", "two"):
        notices.warning(text)
    assert [*seen, capsys.readouterr().err] == ["", "kseg: one\n", "kseg: two\n"]
