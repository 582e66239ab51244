"""A progress line on standard error for operations longer than a second: bytes, rate, time left. Only on a terminal.

The line is redrawn a few times a second and erased at the end, also after an error. The cursor stays visible, so that a
killed process leaves the terminal usable. The drawing library is imported at the first drawing.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

from kseg.errors import KsegError
from kseg.output.notices import is_terminal, on_one_line
from kseg.quantities import shown_bytes
from kseg.segment.paths import expand_path, segment_bytes
from kseg.stores.source import STANDARD_INPUT

DELAY_SECONDS = 1.0
INTERVAL_SECONDS = 0.2
PIECE_BYTES = 8 << 20
"""Bytes processed between two checks of the clock."""

_BAR_WIDTH = 24


class Progress:
    """The progress of a pass over ``total`` bytes (None: unknown), as a context manager.

    Draws only if standard error is a terminal and not ``quiet`` (``is_on``). Otherwise a call costs next to nothing.
    """

    def __init__(self, total: int | None, quiet: bool = False) -> None:
        self._stream = sys.stderr
        self.total = total
        self.is_on = not quiet and is_terminal(self._stream) and os.environ.get("TERM") != "dumb"
        self._began = monotonic()
        self._next = self._began + DELAY_SECONDS
        self._done = 0
        self._is_drawn = False
        self._path = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_error: object) -> None:
        self.erase()
        self.is_on = False

    def at(self, path: str) -> None:
        """Sets the current file or directory. The last two names of the path are shown."""
        self._path = path

    def advance(self, count: int) -> None:
        """Adds ``count`` processed bytes."""
        self._done += count
        if self.is_on and (now := monotonic()) >= self._next:
            self._next = now + INTERVAL_SECONDS
            self._is_drawn = True
            self._write("\r\x1b[2K" + _rendered(self._done, self.total, now - self._began, self._path))

    def erase(self) -> None:
        """Erases the line, so that other output can be written. The next `advance` draws it again."""
        if self._is_drawn:
            self._is_drawn = False
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is closed: continue without progress
            self.is_on = self._is_drawn = False


def _rendered(done: int, total: int | None, seconds: float, path: str) -> str:
    """Returns the line, one column narrower than the terminal. ``done`` and ``total``: in bytes."""
    import shutil

    from rich.console import Console
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    drawn = io.StringIO()
    width = max(shutil.get_terminal_size().columns - 1, 1)
    console = Console(file=drawn, force_terminal=True, width=width, legacy_windows=False, highlight=False)
    line = Table.grid(padding=(0, 1))
    shown = progress_text(done, total, seconds)
    place = f"  {on_one_line('/'.join(path.rstrip('/').rsplit('/', 2)[-2:]))}" if path else ""
    text = Text(shown + place, overflow="crop", no_wrap=True)
    if total and len(shown) + 1 + _BAR_WIDTH <= width:
        line.add_row(ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH), text)
    else:
        line.add_row(text)
    console.print(line, end="", no_wrap=True, overflow="crop", crop=True)
    return drawn.getvalue().replace("\n", "")


def progress_text(done: int, total: int | None, seconds: float) -> str:
    """Returns share, bytes, rate and time left after ``seconds``, as far as they are known."""
    rate = done / seconds if seconds > 0 else 0.0
    speed = f"{shown_bytes(round(rate))}/s"
    if not total:
        return f"{shown_bytes(done)}  {speed}"
    left = ""
    if rate > 0 and done <= total:
        minutes, rest = divmod(min(round((total - done) / rate), 359999), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"  {f'{hours}:{minutes:02d}' if hours else minutes}:{rest:02d} left"
    return f"{min(done / total, 1.0):4.0%}  {shown_bytes(done)} of {shown_bytes(total)}  {speed}{left}"


def progress_over(
    paths: Sequence[str],
    quiet: bool,
    everything: bool = False,
    parts_of: Callable[[str], list[str]] = expand_path,
) -> Progress:
    """Returns the progress, not started yet. With ``everything``, leftover files count, too.

    Reads no sizes if progress is not shown. ``parts_of`` returns the partitions and files of a path.
    """
    progress = Progress(None, quiet)
    if not progress.is_on or STANDARD_INPUT in paths:
        return progress
    with suppress(KsegError, OSError):  # reading the path will report the error
        progress.total = sum(segment_bytes(part, everything) for path in paths for part in parts_of(path))
    return progress
