"""What is told on standard error: one line each, for people; a terminal is given it folded at words."""

import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import click

Color = Literal["auto", "always", "never"]

_PREFIX = "kseg:"
_COLUMNS, _MOST_COLUMNS, _LEAST_COLUMNS = 80, 100, 40
"""Of a terminal that tells none; as many as text is easy to read with; as few as leave more than a word to a line."""


class Notices:
    """Writes lines that begin with ``kseg:``; ``quiet`` and ``verbose`` choose which.

    A line keeps to one line whatever names it holds: control characters and bytes that are no text are escaped.
    """

    def __init__(self, color: Color = "auto", quiet: bool = False, verbose: bool = False) -> None:
        self.is_verbose = verbose
        self._is_quiet = quiet
        self.before: Callable[[], None] | None = None
        """Called before a line is written."""
        self._is_colored = color == "always" or (color == "auto" and _is_color_wanted())

    def error(self, message: object) -> None:
        """Why something could not be done; told even when quiet."""
        self._put(str(message), "red")

    def warning(self, message: str) -> None:
        if not self._is_quiet:
            self._put(message, "yellow")

    def detail(self, message: str) -> None:
        """Told only when verbose."""
        if self.is_verbose:
            self._put(message, "cyan")

    def _put(self, message: str, color: str) -> None:
        if self.before is not None:
            self.before()
        prefix = click.style(_PREFIX, fg=color, bold=True) if self._is_colored else _PREFIX
        # click strips colours from what is no terminal unless it is told otherwise.
        put_line(f"{prefix} {_folded(on_one_line(message))}", color=self._is_colored)


def put_line(line: str, color: bool | None = None) -> None:
    """Writes a line to standard error. Where that is full or closed nothing else changes, the exit status included."""
    with suppress(OSError):
        click.echo(line, err=True, color=color)


def _folded(message: str) -> str:
    """The message as it is for a pipe; for a terminal no line is wider than that, but for names that are."""
    if sys.stderr is None or not sys.stderr.isatty():
        return message
    columns = max(min(_columns(sys.stderr.fileno()), _MOST_COLUMNS), _LEAST_COLUMNS)
    room = " " * (len(_PREFIX) + 1)
    lines = textwrap.wrap(
        message, columns, initial_indent=room, subsequent_indent=room, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)[len(room) :]


def _columns(terminal: int) -> int:
    told = os.environ.get("COLUMNS", "")
    try:
        return (int(told) if told.isdecimal() else os.get_terminal_size(terminal).columns) or _COLUMNS
    except OSError:
        return _COLUMNS


def on_one_line(message: str) -> str:
    """The message with a backslash escape for each character that a terminal would not show as itself."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _is_color_wanted() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
