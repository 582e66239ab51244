"""Colors and widths in text output."""

import os
import unicodedata

import click


class Paint:
    """Colors text. ``color``: auto, always or never; auto depends on NO_COLOR and the terminal."""

    def __init__(self, color: str = "auto", is_terminal: bool = False) -> None:
        wanted = color == "auto" and is_terminal and not os.environ.get("NO_COLOR")
        self.is_on = color == "always" or wanted

    def __call__(self, text: str, color: str | None = None, bold: bool = False) -> str:
        if not self.is_on or not text:
            return text
        return click.style(text, fg=color, bold=bold or None)


def display_width(text: str) -> int:
    """Returns the number of terminal columns of printable text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def clipped(text: str, width: int) -> str:
    """Returns the text, or its start and an ellipsis if it is wider than ``width`` columns."""
    if display_width(text) <= width:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _char_width(char)
        if taken > width - 1:
            return text[:at] + "…"
    return text


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
