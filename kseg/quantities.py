"""Counts, sizes and times in sentences for people."""

import os
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

# Commands and names as text that a shell takes as it stands.

_PLAIN_IN_QUOTES = {"\\": "\\\\", "'": "\\'"}


def shell_line(argv: Iterable[str]) -> str:
    """Returns a command as one line, which bash runs unchanged and every terminal shows."""
    return " ".join(map(quoted, argv))


def quoted(word: str) -> str:
    """Returns a word quoted for a shell. Bytes that are no UTF-8 and characters that a terminal does not print need
    bash's ``$'..'``, all other words what every shell knows.
    """
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def _escaped(char: str) -> str:
    if char.isprintable():
        return _PLAIN_IN_QUOTES.get(char, char)
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def named_path(path: str) -> str:
    """Returns a path that no command takes for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def shown_bytes(count: int) -> str:
    """Returns ``1536`` as ``1.5 KiB``."""
    size, unit = float(count), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


MINUTES, SECONDS, MILLISECONDS = 16, 19, 23
"""Columns of a time without its zone."""


def shown_time(ms: int, precision: int = MILLISECONDS) -> str:
    """Returns milliseconds since the epoch as UTC, or the number itself if it is outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{f'{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}'[:precision]}Z"


def plural(count: int, one: str, many: str, form: str = "") -> str:
    """Returns the number with the singular or plural noun. ``form``: "," separates thousands."""
    return f"{count:{form}} {one if count == 1 else many}"
