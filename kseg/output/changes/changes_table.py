"""Draws the changes of a directory on a terminal as a table."""

from collections.abc import Iterable
from typing import NamedTuple

from kseg.changes.manifest import DONE
from kseg.output.drawing import drawn

_MIN_COMMAND_WIDTH = 8


class Row(NamedTuple):
    """The texts of one change. All must be printable."""

    number: str
    time: str
    state: str
    kept: str
    command: str


def changes_table(rows: Iterable[Row], is_colored: bool) -> str:
    """Returns the table as text. With ``is_colored``, changes in any state but DONE are yellow."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    table.add_column("change", justify="right")
    table.add_column("time")
    table.add_column("state")
    table.add_column("kept", justify="right", no_wrap=True)
    table.add_column("command", overflow="fold", min_width=_MIN_COMMAND_WIDTH)
    for row in rows:
        table.add_row(*map(Text, row), style="" if row.state == DONE else "yellow")
    return drawn(table, is_colored)
