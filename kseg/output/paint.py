"""Colors, sizes, times and widths in text output."""

import os
import unicodedata
from datetime import UTC, datetime, timedelta

import click

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Paint:
    """Colors text. ``color``: auto, always or never; auto depends on NO_COLOR and the terminal."""

    def __init__(self, color: str = "auto", is_terminal: bool = False) -> None:
        wanted = color == "auto" and is_terminal and not os.environ.get("NO_COLOR")
        self.is_on = color == "always" or wanted

    def __call__(self, text: str, color: str | None = None, bold: bool = False) -> str:
        if not self.is_on or not text:
            return text
        return click.style(text, fg=color, bold=bold or None)


def shown_bytes(count: int) -> str:
    """Returns ``1536`` as ``1.5 KiB``."""
    size, unit = float(count), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def shown_time(ms: int) -> str:
    """Returns milliseconds since the epoch as UTC, or the number itself if it is outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def cells(text: str) -> int:
    """Returns the number of terminal columns of printable text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def clipped(text: str, width: int) -> str:
    """Returns the text, or its start and an ellipsis if it is wider than ``width`` columns."""
    if cells(text) <= width:
        return text
    taken = 0
    for at, char in enumerate(text):
        taken += _cells_of(char)
        if taken > width - 1:
            return text[:at] + "…"
    return text


def _cells_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def plural(count: int, one: str, many: str) -> str:
    """Returns the number with the singular or plural noun."""
    return f"{count} {one if count == 1 else many}"
