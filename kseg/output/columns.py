"""Arranges cells in columns, as many as fit on a line."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kseg.output.paint import Paint, display_width
from kseg.output.sink import Sink


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. If a line is too short, columns with the highest ``rank`` are omitted first; rank 0 always
    stays.
    """

    title: str
    rank: int = 0
    is_number: bool = True
    color: str | None = None


class Columns:
    """The columns that fit into ``width``, each as wide as ``widths`` says."""

    def __init__(self, columns: Iterable[Column], widths: Mapping[str, int], width: int) -> None:
        left = list(columns)
        for column in sorted((column for column in left if column.rank), key=lambda column: -column.rank):
            if sum(widths[kept.title] + 1 for kept in left) - 1 > width:
                left.remove(column)
        self._columns = [(column, widths[column.title]) for column in left]

    def heading(self, paint: Paint) -> str:
        """Returns the line of titles."""
        return paint(self.line({column.title: column.title for column, _ in self._columns}), bold=True)

    def width_of(self, title: str, width: int) -> int:
        """Returns the width of the column of this title in a line of ``width``, as far as the others allow."""
        return width - sum(wide + 1 for column, wide in self._columns if column.title != title)

    def line(self, found: Mapping[str, str], paint: Paint | None = None, color: str | None = None) -> str:
        """Returns a line of cells, given by title. ``color`` applies to all of them; None means the color of each
        column.
        """
        shown = []
        for column, width in self._columns:
            text = found.get(column.title, "-")
            blank = " " * (width - display_width(text))
            padded = blank + text if column.is_number else text + blank
            if column is self._columns[-1][0]:
                padded = padded.rstrip()  # otherwise the color would include the blanks
            shown.append(padded if paint is None else paint(padded, color or column.color))
        return " ".join(shown).rstrip()


def line_width(sink: Sink, otherwise: int) -> int:
    """Returns the width in columns: from COLUMNS, from the terminal, or the default for a pipe."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isascii() and setting.isdigit() and int(setting) > 0:
        return int(setting)
    if not sink.is_terminal:
        return otherwise
    import shutil

    return shutil.get_terminal_size().columns
