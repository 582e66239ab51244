"""Text for terminals: colors, widths, columns, and drawings by rich, which is imported at the first of them."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kseg.output.notices import Paint, columns_of_stream, on_one_line
from kseg.output.sink import Sink


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
    import unicodedata

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


MAX_COLUMNS = 120
"""Largest readable width."""
LONGEST_LINE = 1 << 16
"""Width in columns of a table that is not limited."""


def drawn(renderable: Any, is_colored: bool, width: int | None = None) -> str:
    """Returns the lines of a renderable. Text in it is not markup.

    ``width`` in columns; None means that of standard output.
    """
    import shutil

    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=min(width or shutil.get_terminal_size().columns, MAX_COLUMNS),
        force_terminal=True,
        color_system="standard" if is_colored else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable, markup=False, emoji=False)
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


class Column(NamedTuple):
    """A column of a table. In short lines, those of the highest ``rank`` are omitted first; rank 0 always stays."""

    title: str
    rank: int = 0
    is_number: bool = True
    color: str | None = None


def columns_of(text: str, **colors: str) -> tuple[Column, ...]:
    """Returns columns by their titles: "NODE#" for numbers, "LOG_END#/4" for those of rank 4. ``colors``: by title."""
    found = []
    for word in text.split():
        title, _, rank = word.partition("/")
        name = title.rstrip("#")
        found.append(Column(name.replace("_", " "), int(rank or 0), title.endswith("#"), colors.get(name)))
    return tuple(found)


class Columns:
    """The columns that fit into ``width``, each as wide as its title or its widest cell in ``rows``, with ``gap``
    between them. ``limits``: the largest widths, by title.
    """

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Mapping[str, str]], width: int, gap: str = " ", **limits: int
    ) -> None:
        self._gap = gap
        widths = {column.title: display_width(column.title) for column in columns}
        for row in rows:
            for title, widest in widths.items():
                widths[title] = max(widest, display_width(row.get(title, "-")))
        widths |= {title: min(widths[title], limit) for title, limit in limits.items() if title in widths}
        left = list(columns)
        for column in sorted((column for column in left if column.rank), key=lambda column: -column.rank):
            if sum(widths[kept.title] + 1 for kept in left) - 1 > width:
                left.remove(column)
        self._columns = [(column, widths[column.title]) for column in left]

    def heading(self, paint: Paint) -> str:
        """Returns the line of titles."""
        return paint(self.line({column.title: column.title for column, _ in self._columns}), bold=True)

    def lines(self, rows: Iterable[Mapping[str, str]], paint: Paint) -> Iterator[str]:
        """Yields the heading and the lines of a table."""
        yield self.heading(paint)
        for row in rows:
            yield self.line(row, paint)

    def width_of(self, title: str, width: int) -> int:
        """Returns the width that the others leave the column of this title in a line of ``width``, at least its own."""
        own = sum(wide for column, wide in self._columns if column.title == title)
        return max(own, width - sum(wide + 1 for column, wide in self._columns if column.title != title))

    def line(self, found: Mapping[str, str], paint: Paint | None = None, color: str | None = None) -> str:
        """Returns a line of cells, given by title. ``color`` applies to all; None: the color of each column."""
        shown = []
        for column, width in self._columns:
            text = found.get(column.title, "-")
            blank = " " * (width - display_width(text))
            padded = blank + text if column.is_number else text + blank
            if column is self._columns[-1][0]:
                padded = padded.rstrip()  # otherwise the color would include the blanks
            shown.append(padded if paint is None else paint(padded, color or column.color))
        return self._gap.join(shown).rstrip()


def table_lines(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, paint: Paint, gap: str = " "
) -> Iterator[str]:
    """Yields the lines of a table, whose rows have a cell of any text for each column; nothing for no rows."""
    cells = [{column.title: on_one_line(text) for column, text in zip(columns, row, strict=True)} for row in rows]
    return Columns(columns, cells, width, gap).lines(cells, paint) if cells else iter(())


def line_width(sink: Sink, otherwise: int) -> int:
    """Returns the width in columns: from COLUMNS, from the terminal, or the default for a pipe."""
    return columns_of_stream(sys.__stdout__) if sink.is_terminal else columns_of_stream(None, otherwise)
