"""Cells in columns, as many of them as a line has room for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kseg.output.paint import Paint, cells


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Where lines are too short for all, those of the highest ``rank`` go first, 0 never."""

    title: str
    rank: int = 0
    is_number: bool = True
    color: str | None = None


class Columns:
    """Those of ``columns`` that fit into ``width``, each as wide as ``widths`` says, side by side."""

    def __init__(self, columns: Iterable[Column], widths: Mapping[str, int], width: int) -> None:
        left = list(columns)
        for column in sorted((column for column in left if column.rank), key=lambda column: -column.rank):
            if sum(widths[kept.title] + 1 for kept in left) - 1 > width:
                left.remove(column)
        self._columns = [(column, widths[column.title]) for column in left]

    def title(self, paint: Paint) -> str:
        return paint(self.line({column.title: column.title for column, _ in self._columns}), bold=True)

    def room(self, title: str, width: int) -> int:
        """What a line of ``width`` leaves for the column of this title."""
        return width - sum(wide + 1 for column, wide in self._columns if column.title != title)

    def line(self, found: Mapping[str, str], paint: Paint | None = None, color: str | None = None) -> str:
        """A line of cells by title; ``color`` of all of them, None: each its own."""
        shown = []
        for column, width in self._columns:
            text = found.get(column.title, "-")
            blank = " " * (width - cells(text))
            padded = blank + text if column.is_number else text + blank
            if column is self._columns[-1][0]:
                padded = padded.rstrip()  # colours would end behind the blanks
            shown.append(padded if paint is None else paint(padded, color or column.color))
        return " ".join(shown).rstrip()
