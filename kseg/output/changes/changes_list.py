"""Prints the list of `kseg undo --list`: one line or JSON object for each change."""

from dataclasses import dataclass
from typing import Any

from kseg.formats.json_values import encode, name_value
from kseg.output.notices import on_one_line
from kseg.output.sink import Sink
from kseg.quantities import plural, shown_bytes, shown_time


@dataclass(frozen=True, slots=True)
class ListedChange:
    """A change of a partition, or of a log directory as a whole if ``partitions`` is a number."""

    directory: str
    number: int
    time_ms: int
    command: str
    state: str
    kept_bytes: int
    kept: str
    partitions: int | None = None


def show_changes(found: list[ListedChange], form: str, sink: Sink) -> None:
    """Prints the changes, oldest first for each directory."""
    if form == "json":
        for change in found:
            sink.write(encode(_row(change)) + b"\n")
        summary = {"type": "summary", "changed": False, "keptBytes": _kept(found)}
        sink.write(encode(summary) + b"\n")
        return
    directory = None
    for change in found:
        if change.directory != directory:
            directory = change.directory
            _put(sink, on_one_line(directory))
        of = "" if change.partitions is None else f", {plural(change.partitions, 'partition', 'partitions')}"
        what = f"{change.state:<9}  {shown_bytes(change.kept_bytes):>10}  {on_one_line(change.command)}{of}"
        _put(sink, f"  {change.number:>3}  {shown_time(change.time_ms)}  {what}")


def _put(sink: Sink, line: str) -> None:
    sink.write((line + "\n").encode("utf-8", "surrogateescape"))


def _kept(found: list[ListedChange]) -> int:
    return sum(change.kept_bytes for change in found if change.partitions is None)


def _row(change: ListedChange) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": "change",
        "directory": name_value(change.directory),
        "number": change.number,
        "timeMs": change.time_ms,
        "command": change.command,
        "state": change.state,
        "keptBytes": change.kept_bytes,
        "kept": name_value(change.kept) if change.kept else None,
    }
    if change.partitions is not None:
        row["partitions"] = change.partitions
    return row
