"""What is told on standard error: one line each, for people."""

import os
import sys
from collections.abc import Callable
from typing import Literal

import click

Color = Literal["auto", "always", "never"]


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
        prefix = click.style("kseg:", fg=color, bold=True) if self._is_colored else "kseg:"
        # click strips colours from what is no terminal unless it is told otherwise.
        click.echo(f"{prefix} {on_one_line(message)}", err=True, color=self._is_colored)


def on_one_line(message: str) -> str:
    """The message with a backslash escape for each character that a terminal would not show as itself."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def _is_color_wanted() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
