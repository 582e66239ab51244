"""The lines of the hex view: a field with its bytes, name and value, or a range of bytes, abbreviated if it is long.

    position  bytes in groups of 4  name and value, or the bytes as ASCII

Positions are those in the file. In decompressed data they start at 0 and have the prefix ``+``.
"""

import textwrap
from collections.abc import Callable

from kseg.formats.rows import BytesLike, Sliceable
from kseg.limits import WINDOW_BYTES
from kseg.output.notices import on_one_line
from kseg.output.paint import Paint, clipped

FIELD_BYTES = 8
ROW_BYTES = 16
MIN_ZERO_ROWS = 4
SHOWN_BYTES = 64
"""Printed bytes of a key, value or header, unless ``--position`` is given."""
UNPACKED_ENTRIES = 10_000
"""Printed records, headers and messages of a compressed batch: a few hundred bytes can contain millions."""
_NAME_WIDTH = 20
_VALUE_AT = 52
_MIN_VALUE_WIDTH = 20
_PREVIEW_CHARS = 48
_PREVIEW_BYTES = 256


class HexLines:
    """Writes lines of at most ``width`` columns to ``put``, only for bytes in [first, last].

    ``sign``: prefix of positions. ``last`` None: the end. ``is_limited``: the user gave these positions, so only zeros
    are abbreviated.
    """

    def __init__(
        self,
        put: Callable[[str], None],
        paint: Paint,
        width: int = 80,
        first: int = 0,
        last: int | None = None,
        sign: str = "",
        is_limited: bool = False,
    ) -> None:
        self.put = put
        self.paint = paint
        self.width = width
        self.first, self.last = first, last
        self.sign = sign
        self.is_limited = is_limited
        self._entries_left: int | None = None

    def unpacked(self) -> "HexLines":
        """Returns lines with the same settings for decompressed bytes, up to UNPACKED_ENTRIES."""
        lines = HexLines(self.put, self.paint, self.width, sign="+")
        lines._entries_left = UNPACKED_ENTRIES
        return lines

    def take_entry(self) -> bool:
        """Counts a record, header or message. Returns whether it is printed."""
        if self._entries_left is None:
            return True
        self._entries_left -= self._entries_left > 0
        return self._entries_left > 0

    def shows(self, start: int, stop: int) -> bool:
        """Whether any of the bytes [start, stop) is printed; for an empty range, whether its position is."""
        return max(stop, start + 1) > self.first and (self.last is None or start <= self.last)

    def is_behind(self, position: int) -> bool:
        return self.last is not None and position > self.last

    def title(self, position: int, text: str, color: str | None = None) -> None:
        """Writes a heading above the bytes at ``position``."""
        lines = textwrap.wrap(on_one_line(text), max(self.width - 12, _MIN_VALUE_WIDTH)) or [""]
        self.put(f"{self._place(position)}  {self.paint(lines[0], color, bold=True)}")
        for line in lines[1:]:
            self.put(f"{'':12}{self.paint(line, color, bold=True)}")

    def file(self, path: str) -> None:
        """Writes the name of the next file, of any width."""
        self.put(self.paint(on_one_line(path), bold=True))

    def note(self, text: str, color: str | None = None) -> None:
        """Writes a remark on the previous lines."""
        for line in textwrap.wrap(on_one_line(text), max(self.width - 12, _MIN_VALUE_WIDTH)):
            self.put(f"{'':12}{self.paint(line, color)}")

    def field(
        self, position: int, data: BytesLike, name: str, value: str, color: str | None = None, is_record: bool = False
    ) -> None:
        """Writes a field of at most 16 bytes and its ``value``."""
        if not self.shows(position, position + len(data)):
            return
        label = ("  " if is_record else "") + name
        width = max(self.width - _VALUE_AT, _MIN_VALUE_WIDTH)
        shown = textwrap.wrap(on_one_line(value), width, break_on_hyphens=False) or [""]
        for at in range(0, max(len(data), FIELD_BYTES * len(shown), 1), FIELD_BYTES):
            part = bytes(data[at : at + FIELD_BYTES])
            text = shown[at // FIELD_BYTES] if at // FIELD_BYTES < len(shown) else ""
            place = self._place(position + at) if part or at == 0 else " " * 10
            name_shown = self.paint(f"{label if at == 0 else '':<{_NAME_WIDTH}}", "cyan")
            self.put(f"{place}  {in_groups(part):<17}  {name_shown} {self.paint(text, color)}".rstrip())

    def content(self, position: int, data: BytesLike, name: str, is_record: bool = True) -> None:
        """Writes a key, value or header: on one line if it is short, otherwise a preview and rows of bytes."""
        if not len(data) or not self.shows(position, position + len(data)):
            return
        if len(data) <= FIELD_BYTES:
            self.field(position, data, name, preview(data), is_record=is_record)
            return
        label = ("  " if is_record else "") + name
        shown = f"{len(data)} bytes {preview(data)}"
        width = max(self.width - 12 - _NAME_WIDTH - 1, _MIN_VALUE_WIDTH)
        shown = clipped(shown.rstrip(), width)
        self.put(f"{'':10}  {self.paint(f'{label:<{_NAME_WIDTH}}', 'cyan')} {shown}")
        self.rows(position, data, 0, len(data), SHOWN_BYTES)

    def rows(self, position: int, data: Sliceable, start: int, stop: int, shown_bytes: int) -> None:
        """Writes the bytes data[start:stop] in rows of 16; ``position`` is that of data[0].

        Runs of zeros are abbreviated, and bytes after ``shown_bytes``, unless the user gave these positions.
        """
        if self.first > position + start:
            start += (self.first - position - start) // ROW_BYTES * ROW_BYTES
        if self.last is not None:
            stop = min(stop, start + -(-(self.last + 1 - position - start) // ROW_BYTES) * ROW_BYTES)
        left = stop - start if self.is_limited else shown_bytes
        window, window_at = b"", start
        while start < stop:
            if left <= 0:
                hint = "" if self.sign else f" (--position {position + start}..{position + stop - 1})"
                self.note(f"... {stop - start} more bytes{hint}")
                return
            if start + ROW_BYTES > window_at + len(window):
                window, window_at = bytes(data[start : min(start + WINDOW_BYTES, stop)]), start
            row = window[start - window_at : start - window_at + ROW_BYTES]
            if not any(row) and (zeros := _zeros(data, start, stop)) >= MIN_ZERO_ROWS * ROW_BYTES:
                self.put(f"{self._place(position + start)}  ... {zeros} zero bytes")
                start += zeros
                left -= ROW_BYTES
                continue
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            self.put(f"{self._place(position + start)}  {in_groups(row):<35}  {text}".rstrip())
            start += ROW_BYTES
            left -= ROW_BYTES

    def _place(self, position: int) -> str:
        return self.paint(f"{self.sign}{position}".rjust(10), "bright_black")


def in_groups(data: bytes) -> str:
    """Returns bytes in hex, in groups of four."""
    return data.hex(" ", -4)


def preview(data: BytesLike) -> str:
    """Returns the first bytes as quoted text; "" if they are not printable text."""
    part = bytes(data[:_PREVIEW_BYTES])
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        if len(data) <= _PREVIEW_BYTES or error.start < _PREVIEW_BYTES - 3:
            return ""
        text = part[: error.start].decode()
    if not all(char.isprintable() or char in "\t\n\r" for char in text):
        return ""
    is_cut = len(text) > _PREVIEW_CHARS or len(data) > len(part)
    return f'"{on_one_line(text[:_PREVIEW_CHARS])}{"…" if is_cut else ""}"'


def _zeros(data: Sliceable, start: int, stop: int) -> int:
    """Returns the number of zero bytes at the start of data[start:stop], in complete rows unless they reach the end."""
    at = start
    step = MIN_ZERO_ROWS * ROW_BYTES  # small at first, because there can be many short runs
    while at < stop:
        window = bytes(data[at : min(at + step, stop)])
        if window != bytes(len(window)):
            at += len(window) - len(window.lstrip(b"\0"))
            return (at - start) // ROW_BYTES * ROW_BYTES
        at += len(window)
        step = min(2 * step, WINDOW_BYTES)
    return at - start
