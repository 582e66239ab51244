"""Prints the results of a compaction: a few lines, or JSON objects."""

from collections.abc import Iterable
from typing import Any

from kseg.formats.json_values import encode, name_value
from kseg.output.notices import Notices
from kseg.output.sink import Sink
from kseg.quantities import shown_bytes

MAX_ROUNDS = 10
"""Later rounds that the text form lists one by one."""
KINDS = {
    "superseded": "superseded",
    "tombstones": "tombstones",
    "aborted": "of aborted transactions",
    "markers": "markers",
    "noKey": "without a key",
}


class CompactionPrinter:
    """Prints each partition with `show`, and its ``segments`` if requested."""

    def __init__(self, sink: Sink, notices: Notices, as_json: bool) -> None:
        self._sink, self._notices, self._as_json = sink, notices, as_json
        self._rows: list[dict[str, Any]] = []

    def show(self, row: dict[str, Any], segments: Iterable[dict[str, Any]]) -> None:
        self._rows.append(row)
        if self._as_json:
            for found in [*(segments if self._notices.is_verbose else []), row]:
                self._sink.write(encode({**found, "directory": name_value(found["directory"])}) + b"\n")
            return
        for segment in segments:
            self._notices.detail(f"{row['directory']}: {_of_segment(segment)}")
        for line in _of_partition(row):
            self._notices.warning(f"{row['directory']}: {line}")

    def total(self) -> None:
        """Prints the sum of several partitions."""
        done = [row for row in self._rows if row["rounds"]]
        if self._as_json or len(done) < 2:
            return
        before, after = (sum(row[name] for row in done) for name in ("bytesBefore", "bytesAfter"))
        records, kept = (sum(row[name] for row in done) for name in ("records", "kept"))
        self._notices.warning(
            f"in all {len(done)} partitions: {shown_bytes(before)} -> {shown_bytes(after)}, {records} -> {kept} records"
        )


def _of_partition(row: dict[str, Any]) -> list[str]:
    lines = []
    if row["rounds"]:
        rounds = f" in {row['rounds']} rounds" if row["rounds"] > 1 else ""
        lines.append(
            f"{shown_bytes(row['bytesBefore'])} -> {shown_bytes(row['bytesAfter'])}, {row['records']} -> {row['kept']} "
            f"records{rounds}; clean up to offset {row['checkpoint']}{_rate(row)}"
        )
        lines.append(
            f"new files need at most {shown_bytes(row['peakBytes'])} of disk space before old ones are deleted"
        )
        gone = [f"{row['gone'][kind]} {text}" for kind, text in KINDS.items() if row["gone"][kind]]
        if gone:
            lines.append(f"removed records: {', '.join(gone)}")
    lines += _of_later(row["laterRounds"], row["oneRoundMemory"])
    return lines + [f"not cleaned: {stop}" for stop in row["stops"]]


def _of_later(later: list[dict[str, int]], memory_bytes: int) -> list[str]:
    """Returns the known facts about the rounds after the first, which a dry run does not perform."""
    if not later:
        return []
    lines = [
        f"round {number} would clean offsets {each['dirtyFrom']} to {each['dirtyTo'] - 1}, with {each['keys']} keys"
        for number, each in enumerate(later, 2)
    ]
    if len(lines) > MAX_ROUNDS:
        lines[MAX_ROUNDS:] = [f"... and {len(lines) - MAX_ROUNDS} rounds more"]
    return [
        *lines,
        "sizes and counts above are those of round 1; those of later rounds depend on its result. With --memory "
        f"{-(-memory_bytes >> 20)}M one round is enough, and a dry run shows all of it",
    ]


def _of_segment(segment: dict[str, Any]) -> str:
    sources = ", ".join(map(str, segment["sources"][:8])) + (", ..." if len(segment["sources"]) > 8 else "")
    return (
        f"segment {segment['baseOffset']} from {sources}: {shown_bytes(segment['bytesBefore'])} -> "
        f"{shown_bytes(segment['bytesAfter'])}, {segment['records']} -> {segment['kept']} records"
    )


def _rate(row: dict[str, Any]) -> str:
    seconds = row.get("seconds", 0.0)
    return f" ({shown_bytes(round(row['bytesBefore'] / seconds))}/s)" if seconds > 1 else ""
