"""Splits text files into lines as Java does, and keeps each line's byte position."""

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
