"""Prints the results of `kseg undo --list` and `--purge`: lines, JSON objects, or tables on a terminal."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from kseg.changes.driver.undoing import KnownChange, Purged
from kseg.changes.manifest import DONE
from kseg.formats.json_values import fields_of, name_value
from kseg.output.notices import Notices, on_one_line
from kseg.output.sink import Sink
from kseg.output.terminal import Paint, drawn
from kseg.quantities import plural, shown_bytes, shown_time

_MIN_COMMAND_WIDTH = 8


Row = dict[str, Any]


def show_changes(found: list[KnownChange], form: str, color: str, sink: Sink) -> None:
    """Prints the changes, oldest first for each directory."""
    if form == "json":
        for change in found:
            sink.put_row(_row(change))
        kept = sum(change.kept_bytes for change in found)
        sink.put_row({"type": "summary", "changed": False, "keptBytes": kept})
        return
    paint = Paint(color, sink.is_terminal)
    for directory, changes in groupby(found, key=lambda change: change.directory):
        rows = list(map(_row, changes))
        sink.put(paint(on_one_line(directory), bold=True))
        if sink.is_terminal:
            sink.write(changes_table(rows, paint.is_on).encode())
        else:
            for number, time, state, size, command in map(_cells, rows):
                sink.put(f"  {number:>3}  {time}  {state:<9}  {size:>10}  {command}")


def changes_table(rows: Iterable[Row], is_colored: bool) -> str:
    """Returns the table for a terminal as text. With ``is_colored``, changes in any state but DONE are yellow."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    table.add_column("change", justify="right")
    table.add_column("time")
    table.add_column("state")
    table.add_column("kept", justify="right", no_wrap=True)
    table.add_column("command", overflow="fold", min_width=_MIN_COMMAND_WIDTH)
    for row in rows:
        table.add_row(*map(Text, _cells(row)), style="" if row["state"] == DONE else "yellow")
    return drawn(table, is_colored)


def _cells(row: Row) -> tuple[str, ...]:
    """Returns number, time, state, kept bytes and command as printable texts."""
    partitions = f", {plural(row['partitions'], 'partition', 'partitions')}" if "partitions" in row else ""
    command = on_one_line(row["command"]) + partitions
    return str(row["number"]), shown_time(row["timeMs"]), row["state"], shown_bytes(row["keptBytes"]), command


def _row(change: KnownChange) -> Row:
    row: Row = {
        "type": "change",
        "directory": name_value(change.directory),
        **fields_of(change, "number", "time_ms", "command", "state", "kept_bytes"),
        "kept": name_value(change.kept) if change.kept else None,
    }
    return row if change.partitions is None else row | {"partitions": change.partitions}


def show_purged(purged: Purged, is_dry: bool, form: str, sink: Sink, notices: Notices) -> None:
    """Prints the result of `kseg undo --purge` for one path: a message, or a JSON object."""
    if form == "json":
        row = {
            "type": "purge",
            "path": name_value(purged.path),
            **fields_of(purged, "changes", "freed_bytes"),
            "dryRun": is_dry,
        }
        sink.put_row(row)
        return
    freed = f"{'would free' if is_dry else 'freed'} {shown_bytes(purged.freed_bytes)}"
    notices.warning(f"{purged.path}: {freed} (changes: {purged.changes})")
