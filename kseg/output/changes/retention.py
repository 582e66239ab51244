"""Prints why segments are deleted or kept: a few lines each, or one JSON object each.

Rows are the objects of the JSON form; ``directory`` is a path, ``file`` a name in it.
"""

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kseg.formats.json_values import encode, name_value
from kseg.output.notices import Notices, on_one_line
from kseg.output.paint import Paint
from kseg.output.sink import Sink
from kseg.quantities import plural, shown_bytes, shown_time
from kseg.segment.times import in_other_unit, show_span

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
    """Base class: call `show` for each partition."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def show(self, partition: dict[str, Any], segments: Iterable[dict[str, Any]]) -> None:
        raise NotImplementedError

    def total(self) -> None:
        """Prints nothing: the command itself reports the amounts."""


class JsonRetention(RetentionPrinter):
    """Prints one object for the partition, and one for each segment."""

    def show(self, partition: dict[str, Any], segments: Iterable[dict[str, Any]]) -> None:
        directory = partition["directory"]
        self._put({**partition, "directory": name_value(directory)})
        for row in segments:
            self._put({**row, "file": name_value(os.path.join(directory, row["file"]))})

    def _put(self, row: dict[str, Any]) -> None:
        self._sink.write(encode(row) + b"\n")


class TextRetention(RetentionPrinter):
    """Prints the partition's settings, then for each segment the decision and the reasons."""

    def __init__(self, sink: Sink, color: str) -> None:
        super().__init__(sink)
        self._paint = Paint(color, sink.is_terminal)

    def show(self, partition: dict[str, Any], segments: Iterable[dict[str, Any]]) -> None:
        self._put(on_one_line(partition["directory"]))
        for line in _of_partition(partition):
            self._wrapped(line, "  ", "    ")
        if partition["rolls"]:
            end = partition["logEndOffset"]
            self._wrapped(f"all segments are deleted; first an empty one is created at offset {end}", "  ", "    ")
        for row in segments:
            self._segment(partition, row)

    def _segment(self, partition: dict[str, Any], row: dict[str, Any]) -> None:
        verdict, color = _verdict(row)
        self._put(f"  {row['file']}  {shown_bytes(row['size']):>10}  {self._paint(verdict, color)}")
        for line in _reasons(partition, row):
            self._wrapped(line, " " * 6, " " * 8)

    def _wrapped(self, text: str, first: str, later: str) -> None:
        for line in textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=later):
            self._put(line)

    def _put(self, line: str) -> None:
        self._sink.write((line + "\n").encode("utf-8", "surrogateescape"))


def _of_partition(row: dict[str, Any]) -> list[str]:
    sources, offsets = row["sources"], (row["logStartOffset"], row["highWatermark"], row["logEndOffset"])
    age = _limit(row["retentionMs"], sources["retention.ms"], lambda ms: f"{ms} ({show_span(ms)})")
    count = plural(row["segments"], "segment", "segments")
    return [
        f"{count}, {shown_bytes(row['bytes'])}; now is {shown_time(row['now'])}",
        f"cleanup.policy {row['cleanupPolicy'] or '(none)'} ({_SOURCES[sources['cleanup.policy']]})",
        f"retention.ms {age}",
        f"retention.bytes {_limit(row['retentionBytes'], sources['retention.bytes'], str)}",
        "log start offset {}, high watermark {}, log end {}".format(*offsets),
    ]


def _limit(value: int, source: str, shown: Callable[[int], str]) -> str:
    if source == "unknown":
        return "unknown (a broker may have a setting of its own): assumed to be unlimited"
    return f"{shown(value) if value >= 0 else 'unlimited'} ({_SOURCES[source]})"


def _verdict(row: dict[str, Any]) -> tuple[str, str]:
    """Returns the decision for a segment, and its color."""
    if row["rule"]:
        return f"goes: {_RULES[row['rule']]}", "red"
    if not row["held"] and row["goesAt"] is not None:
        return f"stays until {shown_time(row['goesAt'])}", "yellow" if row["isFuture"] else "green"
    return "stays", "green"


def _reasons(partition: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
    yield _age(partition, row)
    if row["rule"]:
        if row["rule"] != "time":
            yield _why_it_goes(partition, row)
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


def _why_it_goes(partition: dict[str, Any], row: dict[str, Any]) -> str:
    if row["rule"] == "size":
        return f"without it the log still has at least retention.bytes, {partition['retentionBytes']}"
    return f"its last offset, {row['lastOffset']}, is below the log start offset"


def _age(partition: dict[str, Any], row: dict[str, Any]) -> str:
    time, now = row["largestTimestamp"], partition["now"]
    ago = f"{show_span(now - time)} {'ahead' if time > now else 'ago'}"
    if row["largestTimestampSource"] == "fileTime":
        return f"its time index has no timestamp; file written {shown_time(time)}, {ago}"
    if row["recordOffset"] is None:
        return f"newest timestamp in its time index {shown_time(time)}, {ago}; no record has it"
    return f"newest record: offset {row['recordOffset']}, {shown_time(time)}, {ago}"


def retention_printer(form: str, color: str, sink: Sink, _notices: Notices) -> RetentionPrinter:
    """Returns the printer for ``--format``."""
    return JsonRetention(sink) if form == "json" else TextRetention(sink, color)
