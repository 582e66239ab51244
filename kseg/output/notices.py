"""Messages on standard error, one line each, and the options by which a command shows its results.

On a terminal, long lines are wrapped at words.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple, TextIO

import click

from kseg.errors import KsegError

Color = Literal["auto", "always", "never"]

COPIED_INDENT = "    "
_PREFIX = "kseg:"
_MAX_COLUMNS, _MIN_COLUMNS = 100, 40
"""Largest readable width; smallest width for wrapping."""


class Paint:
    """Colors text. ``color``: auto, always or never; auto depends on NO_COLOR, TERM and the terminal."""

    def __init__(self, color: str = "auto", is_terminal: bool = False) -> None:
        wanted = color == "auto" and is_terminal and not os.environ.get("NO_COLOR")
        self.is_on = color == "always" or (wanted and os.environ.get("TERM") != "dumb")

    def __call__(self, text: str, color: str | None = None, bold: bool = False) -> str:
        if not self.is_on or not text:
            return text
        return click.style(text, fg=color, bold=bold or None)


class Notices:
    """Writes lines that start with ``kseg:``; ``quiet`` and ``verbose`` select which.

    A message is always one line: control characters and invalid UTF-8 in names are escaped. ``copied`` is text for
    people to copy, such as a command: a line of its own below the message, with nothing around it and never wrapped.
    """

    def __init__(self, color: Color = "auto", quiet: bool = False, verbose: bool = False) -> None:
        self.color, self.is_quiet, self.is_verbose = color, quiet, verbose
        self.before: Callable[[], None] | None = None
        """Called before each line."""
        self._paint = Paint(color, is_terminal(sys.stderr))
        self.is_colored = self._paint.is_on

    def error(self, message: object) -> None:
        """Reports an error, even with ``quiet``."""
        if isinstance(message, KsegError):
            self._put(message.text, "red", message.command)
        else:
            self._put(str(message), "red")

    def warning(self, message: str, copied: str = "") -> None:
        if not self.is_quiet:
            self._put(message, "yellow", copied)

    def detail(self, message: str) -> None:
        """Reports a detail, only with ``verbose``."""
        if self.is_verbose:
            self._put(message, "cyan")

    def _put(self, message: str, color: str, copied: str = "") -> None:
        below = f"\n{COPIED_INDENT}{copied}" if copied else ""
        self.write(f"{self._paint(_PREFIX, color, bold=True)} {_folded(on_one_line(message))}{below}")

    def write(self, text: str) -> None:
        """Writes lines as they are, even with ``quiet``; ``text`` has no line break at its end."""
        if self.before is not None:
            self.before()
        # By default click strips colors if the output is not a terminal.
        put_line(text, color=self.is_colored)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal: not if it is closed or detached."""
    with suppress(ValueError):
        return stream is not None and stream.isatty()
    return False


def put_line(line: str, color: bool | None = None) -> None:
    """Writes a line to standard error. A failure is ignored; the exit status stays the same."""
    with suppress(OSError):
        click.echo(line, err=True, color=color)


def _folded(message: str) -> str:
    """Returns the message unchanged for a pipe; for a terminal, wrapped to a readable width. Names are not split."""
    width = terminal_width()
    if width is None:
        return message
    import textwrap

    columns = max(min(width, _MAX_COLUMNS), _MIN_COLUMNS)
    indent = " " * (len(_PREFIX) + 1)
    lines = textwrap.wrap(
        message,
        columns,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)[len(indent) :]


def terminal_width() -> int | None:
    """Returns the width of standard error in columns, None if it is not a terminal."""
    return columns_of_stream(sys.stderr) if is_terminal(sys.stderr) else None


def columns_of_stream(stream: TextIO | None, otherwise: int = 80) -> int:
    """Returns a width in columns: from COLUMNS, else that of the terminal, or the default if there is none. As `shutil`
    does it, whose import takes longer than a help.
    """
    setting = os.environ.get("COLUMNS", "")
    columns = int(setting) if setting.isdecimal() else 0
    if not columns and stream is not None:
        with suppress(ValueError, OSError):  # closed, or no terminal
            columns = os.get_terminal_size(stream.fileno()).columns
    return columns or otherwise


def on_one_line(message: str) -> str:
    """Returns the message with a backslash escape for each character that a terminal does not print."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


class Presentation(NamedTuple):
    """``form``: text or json, of ``kseg verify`` also junit or html. ``as_page``: the JSON becomes a page of HTML.

    ``report``: the file for the plan of a dry run, None for standard output.
    """

    form: str = "text"
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False
    as_page: bool = False
    report: str | None = None

    def notices(self) -> Notices:
        return Notices(self.color, self.quiet, self.verbose)
