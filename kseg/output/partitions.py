"""Prints what compaction and retention do to a partition and its segments: a few lines, or JSON objects.

Rows are the objects of the JSON form; ``directory`` is a path, ``file`` a name in it.
"""

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kseg.formats.json_values import name_value
from kseg.output.notices import Notices, on_one_line
from kseg.output.sink import Sink
from kseg.output.terminal import Paint
from kseg.quantities import plural, shown_bytes, shown_time
from kseg.segment.times import in_other_unit, show_span

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
                self._sink.put_row({**found, "directory": name_value(found["directory"])})
            return
        for segment in segments:
            sources = ", ".join(map(str, segment["sources"][:8])) + (", ..." if len(segment["sources"]) > 8 else "")
            sizes = f"{shown_bytes(segment['bytesBefore'])} -> {shown_bytes(segment['bytesAfter'])}"
            self._notices.detail(
                f"{row['directory']}: segment {segment['baseOffset']} from {sources}: {sizes}, {segment['records']} -> "
                f"{segment['kept']} records"
            )
        for line in _compacted(row):
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


def _compacted(row: dict[str, Any]) -> list[str]:
    lines = []
    if row["rounds"]:
        seconds = row.get("seconds", 0.0)
        rate = f" ({shown_bytes(round(row['bytesBefore'] / seconds))}/s)" if seconds > 1 else ""
        rounds = f" in {row['rounds']} rounds" if row["rounds"] > 1 else ""
        lines.append(
            f"{shown_bytes(row['bytesBefore'])} -> {shown_bytes(row['bytesAfter'])}, {row['records']} -> {row['kept']} "
            f"records{rounds}; clean up to offset {row['checkpoint']}{rate}"
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


COLUMNS = 80
_SOURCES = {
    "option": "by option", "topic": "the topic's", "server": "by the broker's file", "default": "Kafka's default",
    "unknown": "unknown",
}  # fmt: skip
_RULES = {"logStart": "below the log start", "size": "too much", "time": "too old"}
_HELD = {
    "high watermark": "holds offsets at or above the high watermark",
    "empty": "empty, and the last: a broker would create it again",
    "keep-active": "the last, which --keep-active keeps",
}


class RetentionPrinter:
    """Prints a partition's settings, then for each segment the decision and the reasons; or an object for each."""

    def __init__(self, sink: Sink, _notices: Notices, color: str, as_json: bool) -> None:
        self._sink, self._as_json = sink, as_json
        self._paint = Paint(color, sink.is_terminal)

    def show(self, partition: dict[str, Any], segments: Iterable[dict[str, Any]]) -> None:
        directory = partition["directory"]
        if self._as_json:
            self._sink.put_row({**partition, "directory": name_value(directory)})
            for row in segments:
                self._sink.put_row({**row, "file": name_value(os.path.join(directory, row["file"]))})
            return
        self._sink.put(on_one_line(directory))
        sources = partition["sources"]
        age = _limit(partition["retentionMs"], sources["retention.ms"], lambda ms: f"{ms} ({show_span(ms)})")
        count = plural(partition["segments"], "segment", "segments")
        offsets = (partition[name] for name in ("logStartOffset", "highWatermark", "logEndOffset"))
        for line in (
            f"{count}, {shown_bytes(partition['bytes'])}; now is {shown_time(partition['now'])}",
            f"cleanup.policy {partition['cleanupPolicy'] or '(none)'} ({_SOURCES[sources['cleanup.policy']]})",
            f"retention.ms {age}",
            f"retention.bytes {_limit(partition['retentionBytes'], sources['retention.bytes'], str)}",
            "log start offset {}, high watermark {}, log end {}".format(*offsets),
        ):
            self._wrapped(line, "  ", "    ")
        if partition["rolls"]:
            end = partition["logEndOffset"]
            self._wrapped(f"all segments are deleted; first an empty one is created at offset {end}", "  ", "    ")
        for row in segments:
            self._segment(partition, row)

    def total(self) -> None:
        """Prints nothing: the command itself reports the amounts."""

    def _segment(self, partition: dict[str, Any], row: dict[str, Any]) -> None:
        verdict, color = "stays", "green"
        if row["rule"]:
            verdict, color = f"goes: {_RULES[row['rule']]}", "red"
        elif not row["held"] and row["goesAt"] is not None:
            verdict, color = f"stays until {shown_time(row['goesAt'])}", "yellow" if row["isFuture"] else "green"
        self._sink.put(f"  {row['file']}  {shown_bytes(row['size']):>10}  {self._paint(verdict, color)}")
        for line in _reasons(partition, row):
            self._wrapped(line, " " * 6, " " * 8)

    def _wrapped(self, text: str, first: str, later: str) -> None:
        for line in textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=later):
            self._sink.put(line)


def _limit(value: int, source: str, shown: Callable[[int], str]) -> str:
    if source == "unknown":
        return "unknown (a broker may have a setting of its own): assumed to be unlimited"
    return f"{shown(value) if value >= 0 else 'unlimited'} ({_SOURCES[source]})"


def _reasons(partition: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
    time, now = row["largestTimestamp"], partition["now"]
    when = f"{shown_time(time)}, {show_span(now - time)} {'ahead' if time > now else 'ago'}"
    if row["largestTimestampSource"] == "fileTime":
        yield f"its time index has no timestamp; file written {when}"
    elif row["recordOffset"] is None:
        yield f"newest timestamp in its time index {when}; no record has it"
    else:
        yield f"newest record: offset {row['recordOffset']}, {when}"
    if row["rule"]:
        if row["rule"] == "size":
            yield f"without it the log still has at least retention.bytes, {partition['retentionBytes']}"
        elif row["rule"] != "time":
            yield f"its last offset, {row['lastOffset']}, is below the log start offset"
        return
    if row["held"]:
        yield _HELD[row["held"]]
        return
    if row["blockedBy"]:
        yield f"blocked by {row['blockedBy']}, which is older and has a later timestamp"
    if row["isFuture"]:
        yield "that time is in the future: this and all later segments do not expire by age"
        if unit := in_other_unit(row["largestTimestamp"]):
            yield unit
    if row["goesAfterBytes"] is not None:
        earlier = "or " if row["goesAt"] is not None else ""
        yield f"{earlier}until the log has grown by {shown_bytes(row['goesAfterBytes'])}"
    elif row["goesAt"] is None:
        is_kept = "delete" not in partition["cleanupPolicy"]
        yield "its cleanup.policy deletes nothing by age or size" if is_kept else "no limit applies to it"
