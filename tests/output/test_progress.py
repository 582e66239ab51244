"""Progress appears only on a terminal and only after a second, and is erased at the end."""

import io
import re

import pytest

from kseg.output.notices import Notices
from kseg.output.progress import Progress, progress_text
from output.feeding import Terminal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def work(stream: io.StringIO, seconds: float, quiet: bool = False) -> None:
    clock = Clock()
    with Progress(1000, quiet, stream, clock) as progress:
        for _ in range(10):
            clock.now += seconds / 10
            progress.advance(100)


def test_a_long_pass_shows_a_line_and_takes_it_away() -> None:
    stream = Terminal()
    work(stream, 5.0)
    written = stream.getvalue()
    assert "40%" in written.replace("\x1b", "")
    assert written.endswith("\r\x1b[2K")
    assert "\n" not in written


def test_the_file_name_is_shortened_to_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, is_whole in ((200, True), (60, False)):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream, clock = Terminal(), Clock()
        with Progress(1000, False, stream, clock) as progress:
            progress.at("/var/lib/kafka/orders-0/00000000000000000042.log")
            clock.now += 2
            progress.advance(500)
        drawn = re.sub(r"\x1b\[[0-9;]*[mK]", "", stream.getvalue()).strip("\r")
        assert ("  orders-0/00000000000000000042.log" in drawn) == is_whole
        assert len(drawn) < columns
        assert "50%" in drawn


def test_a_short_pass_shows_nothing() -> None:
    stream = Terminal()
    work(stream, 0.9)
    assert stream.getvalue() == ""


def test_nothing_without_a_terminal_or_if_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, quiet, dumb = io.StringIO(), Terminal(), Terminal()
    work(stream, 5.0)
    work(quiet, 5.0, quiet=True)
    monkeypatch.setenv("TERM", "dumb")
    work(dumb, 5.0)
    assert stream.getvalue() == quiet.getvalue() == dumb.getvalue() == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_line_is_erased_after_an_error(error: type[BaseException]) -> None:
    stream, clock = Terminal(), Clock()

    def fail() -> None:
        with Progress(1000, False, stream, clock) as progress:
            clock.now += 2
            progress.advance(10)
            assert stream.getvalue()
            raise error

    with pytest.raises(error):
        fail()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_it_is_drawn_a_few_times_a_second() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(10_000, False, stream, clock) as progress:
        for _ in range(1000):
            clock.now += 0.01
            progress.advance(1)
    assert 20 < stream.getvalue().count("\r") < 60


def test_an_erased_line_is_drawn_again() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(100, False, stream, clock) as progress:
        clock.now += 2
        progress.advance(10)
        progress.erase()
        assert stream.getvalue().endswith("\r\x1b[2K")
        clock.now += 1
        progress.advance(10)
        assert "20%" in stream.getvalue()


def test_a_closed_terminal_stops_it_alone() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(100, False, stream, clock) as progress:
        stream.close()
        clock.now += 2
        progress.advance(10)
        progress.advance(10)
    assert stream.closed


@pytest.mark.parametrize("end", ["close", "detach"])
def test_a_stream_that_was_ended_shows_none(end: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    getattr(stream, end)()
    assert not Progress(None, False, stream).is_on


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
