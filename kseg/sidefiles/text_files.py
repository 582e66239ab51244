"""Text files as Java reads them: lines, each with its byte position, numbers, and properties."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable

MAX_TEXT_BYTES = 64 << 20
"""Limit of bytes read of a text file; a checkpoint of a million partitions is smaller."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)


class Line(NamedTuple):
    """A line without its terminator, in ``length`` bytes from ``position`` on."""

    text: str
    position: int
    length: int


def text_bytes(buffer: Sliceable) -> bytes:
    """Returns the bytes of a text file, truncated to MAX_TEXT_BYTES."""
    return bytes(buffer[: min(len(buffer), MAX_TEXT_BYTES)])


def lines(data: bytes, encoding: str = "utf-8") -> Iterator[Line]:
    """Yields lines as BufferedReader.readLine does: terminated by LF, CR or CRLF; no empty line after the last."""
    start = 0
    for end in _LINE_END.finditer(data):
        yield Line(data[start : end.start()].decode(encoding, "replace"), start, end.start() - start)
        start = end.end()
    if start < len(data):
        yield Line(data[start:].decode(encoding, "replace"), start, len(data) - start)


def integer(text: str, bits: int) -> int | None:
    """Parses as Integer.parseInt (32 bits) or Long.parseLong (64 bits) does; None if they would throw."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    number = -int(found[2]) if found[1] == "-" else int(found[2])
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


# Properties files: keys, values, comments and escapes (java.util.Properties.load).

_BLANK = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One key and its value, in ``length`` bytes from ``position`` on, including continuation lines."""

    key: str
    value: str
    position: int
    length: int


def properties(data: bytes) -> Iterator[Property]:
    """Yields the properties in file order; if a key is repeated, the last one counts."""
    for line in _logical_lines(data):
        found = _KEY.fullmatch(line.text)
        if found:
            yield Property(_unescape(found[1]), _unescape(found[2]), line.position, line.length)


def _logical_lines(data: bytes) -> Iterator[Line]:
    held: Line | None = None
    pieces: list[str] = []
    for line in lines(data, "latin-1"):
        text = line.text.lstrip(_BLANK)
        if held is None and (not text or text[0] in "#!"):
            continue
        held = Line("", *(line[1:] if held is None else (held.position, line.position + line.length - held.position)))
        is_continued = (len(text) - len(text.rstrip("\\"))) % 2 == 1
        pieces.append(text[:-1] if is_continued else text)
        if not is_continued:
            yield held._replace(text="".join(pieces))
            held, pieces = None, []
    if held is not None:
        yield held._replace(text="".join(pieces))


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        name = found[1]
        return chr(int(name[1:], 16)) if len(name) == 5 else _CONTROLS.get(name, name)

    return _ESCAPE.sub(character, text)
