"""Prints the results of `kseg undo --list` and `--purge`: one line or JSON object each."""

from typing import Any

from kseg.changes.driver.known_changes import KnownChange, Purged
from kseg.formats.json_values import encode, name_value
from kseg.output.notices import Notices, on_one_line
from kseg.output.sink import Sink
from kseg.quantities import plural, shown_bytes, shown_time


def show_changes(found: list[KnownChange], form: str, sink: Sink) -> None:
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


def _kept(found: list[KnownChange]) -> int:
    return sum(change.kept_bytes for change in found if change.partitions is None)


def _row(change: KnownChange) -> dict[str, Any]:
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


def show_purged(purged: Purged, is_dry: bool, form: str, sink: Sink, notices: Notices) -> None:
    """Prints the result of `kseg undo --purge` for one path: a message, or a JSON object."""
    if form == "json":
        row = {
            "type": "purge",
            "path": name_value(purged.path),
            "changes": purged.changes,
            "freedBytes": purged.freed_bytes,
            "dryRun": is_dry,
        }
        sink.write(encode(row) + b"\n")
        return
    freed = f"{'would free' if is_dry else 'freed'} {shown_bytes(purged.freed_bytes)}"
    notices.warning(f"{purged.path}: {freed} (changes: {purged.changes})")
