"""Commands and names as text that a shell takes as it stands."""

import os
import shlex
from collections.abc import Iterable

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
