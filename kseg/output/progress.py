"""Progress on standard error, for what takes longer than a second and is watched on a terminal: bytes, rate, time left.

One line, drawn over itself a few times a second and erased at the end, whatever the end is. The cursor stays visible,
so that nothing is left behind where the process is killed. What draws it is imported when it is drawn first.
"""

import io
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TextIO

from kseg.kernel.native import FRAME_POSITION, FRAME_WIDTH
from kseg.segment.reader import Run

DELAY_SECONDS = 1.0
INTERVAL_SECONDS = 0.2
PIECE_BYTES = 8 << 20
"""What is worked on between two looks at the clock."""

_BAR_WIDTH = 24


class Progress:
    """A line that tells how far a pass over ``total`` bytes (None: unknown) is. To be used as a context manager.

    Draws only where ``stream`` is a terminal, and nothing if ``quiet`` (``is_on``): a call costs next to nothing then.
    """

    def __init__(
        self,
        total: int | None,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.total = total
        self._clock = clock
        self.is_on = not quiet and self._stream is not None and _is_terminal(self._stream)
        self._began = clock() if self.is_on else 0.0
        self._next = self._began + DELAY_SECONDS
        self._done = 0
        self._render: Callable[[int, int | None, float, str], str] | None = None
        self._is_drawn = False
        self._path = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_error: object) -> None:
        self.erase()
        self.is_on = False

    def at(self, path: str) -> None:
        """What is worked on from now on: a file or directory, of which the last two names are shown."""
        self._path = path

    def advance(self, count: int) -> None:
        """``count`` bytes more are done."""
        self._done += count
        if self.is_on and (now := self._clock()) >= self._next:
            self._next = now + INTERVAL_SECONDS
            self._draw(now)

    def erase(self) -> None:
        """Takes the line away, so that something else can be written; it comes back with the next `advance`."""
        if self._is_drawn:
            self._is_drawn = False
            self._write("\r\x1b[2K")

    def _draw(self, now: float) -> None:
        if self._render is None:
            self._render = _renderer()
        self._is_drawn = True
        self._write("\r\x1b[2K" + self._render(self._done, self.total, now - self._began, self._path))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone: what is worked on goes on without it
            self.is_on = self._is_drawn = False


def _renderer() -> Callable[[int, int | None, float, str], str]:
    """What draws the line, from bytes done, bytes in all, seconds passed and path; as wide as the terminal, less a
    column."""
    import shutil

    from rich.console import Console
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def render(done: int, total: int | None, seconds: float, path: str) -> str:
        drawn = io.StringIO()
        width = max(shutil.get_terminal_size().columns - 1, 1)
        console = Console(file=drawn, force_terminal=True, width=width, legacy_windows=False, highlight=False)
        line = Table.grid(padding=(0, 1))
        told = progress_text(done, total, seconds)
        text = Text(told + _place(path), overflow="crop", no_wrap=True)
        if total and len(told) + 1 + _BAR_WIDTH <= width:
            line.add_row(ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH), text)
        else:
            line.add_row(text)
        console.print(line, end="", no_wrap=True, overflow="crop", crop=True)
        return drawn.getvalue().replace("\n", "")

    return render


def progress_text(done: int, total: int | None, seconds: float) -> str:
    """How far it is after ``seconds``: share, bytes, rate and time left as far as they can be told."""
    from kseg.output.paint import shown_bytes

    rate = done / seconds if seconds > 0 else 0.0
    speed = f"{shown_bytes(round(rate))}/s"
    if not total:
        return f"{shown_bytes(done)}  {speed}"
    left = f"  {_clock_time((total - done) / rate)} left" if rate > 0 and done <= total else ""
    return f"{min(done / total, 1.0):4.0%}  {shown_bytes(done)} of {shown_bytes(total)}  {speed}{left}"


def _place(path: str) -> str:
    """The last two names of a path, "" for none."""
    from kseg.output.notices import on_one_line

    return f"  {on_one_line('/'.join(path.rstrip('/').rsplit('/', 2)[-2:]))}" if path else ""


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(min(round(seconds), 359999), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def pieces(run: Run, piece_bytes: int = PIECE_BYTES) -> Iterator[Run]:
    """A run as shorter ones of some ``piece_bytes`` each, one batch at least, between which progress can be told."""
    first = 0
    while first < run.count:
        stop = run.count
        end = run.rows[first * FRAME_WIDTH + FRAME_POSITION] + piece_bytes
        if run.end > end:
            positions = range(first + 1, run.count)
            stop = first + 1 + bisect_left(positions, end, key=lambda i: run.rows[i * FRAME_WIDTH + FRAME_POSITION])
        yield Run(run.rows[first * FRAME_WIDTH : stop * FRAME_WIDTH], stop - first)
        first = stop


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False
