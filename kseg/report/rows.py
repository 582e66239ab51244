"""Reports of commands that print rows: ``dump --summary``, ``retain --explain`` and every plan.

The command prints its JSON Lines into a `RowSink`; the page shows these rows.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kseg.formats.byte_types import BytesLike
from kseg.output.notices import on_one_line
from kseg.output.sink import Sink
from kseg.quantities import plural, shown_bytes
from kseg.report.page import Card, NextStep, Page, page_bytes

SUMMARY, RETENTION, PLAN = "summary", "retention", "plan"
Row = dict[str, Any]


class RowSink(Sink):
    """Keeps the JSON Lines that are written, as objects."""

    def __init__(self) -> None:
        super().__init__(-1, "the report")
        self._data = bytearray()

    def _write_all(self, view: BytesLike) -> None:
        self._data += view

    def rows(self) -> list[Row]:
        self.flush()
        return [json.loads(line) for line in self._data.splitlines() if line]


@contextmanager
def html_report(sink: Sink, kind: str, title: str, paths: Sequence[str]) -> Iterator[Sink]:
    """Yields a sink for JSON Lines, and writes the page to ``sink`` at the end. ``kind``: SUMMARY, RETENTION, PLAN."""
    rows = RowSink()
    yield rows
    sink.write(page_bytes(page_of(kind, title, paths, rows.rows())))
    sink.flush()


def page_of(kind: str, title: str, paths: Sequence[str], rows: list[Row]) -> Page:
    """Returns the page of a command's rows."""
    make = {SUMMARY: _summary, RETENTION: _retention, PLAN: _plan}[kind]
    verdict, tone, cards, steps = make(rows)
    return Page(title, verdict, tone, [on_one_line(path) for path in paths], cards, steps, {"kind": kind, "rows": rows})


Made = tuple[str, str, list[Card], list[NextStep]]


def _summary(rows: list[Row]) -> Made:
    found = [row for row in rows if row["type"] == "summary"]
    damaged = sum(row["damagedBytes"] for row in found)
    broken = sum(sum(row["problems"].values()) for row in found)
    old = sum(form["batches"] for row in found for form in row["forms"] if form["format"] != "v2")
    total = {name: sum(row[name] for row in found) for name in ("bytes", "batches", "records")}
    verdict = f"{plural(len(found), 'partition', 'partitions')}, {shown_bytes(total['bytes'])}"
    if damaged:
        verdict += f", {shown_bytes(damaged)} of it damaged"
    if broken:
        verdict += f", {plural(broken, 'batch', 'batches')} with wrong checksums or records"
    cards = [
        Card("partitions", f"{len(found):,}"),
        Card("size", shown_bytes(total["bytes"])),
        Card("batches", f"{total['batches']:,}"),
        Card("records", f"{total['records']:,}"),
        Card("damaged", shown_bytes(damaged), "error" if damaged else ""),
        Card("broken batches", f"{broken:,}", "error" if broken else ""),
        Card("batches of v0 and v1", f"{old:,}", "info" if old else ""),
    ]
    return f"{verdict}.", "error" if damaged or broken else "good", cards, []


def _retention(rows: list[Row]) -> Made:
    partitions = [row for row in rows if row["type"] == "retention"]
    before, after = (sum(row[name] for row in partitions) for name in ("bytes", "bytesAfter"))
    goes = sum(row["goes"] for row in partitions)
    cards = [
        Card("partitions", f"{len(partitions):,}"),
        Card("segments", f"{sum(row['segments'] for row in partitions):,}"),
        Card("to be deleted", f"{goes:,}", "warning" if goes else ""),
        Card("size now", shown_bytes(before)),
        Card("size after", shown_bytes(after)),
    ]
    if not goes:
        return "Retention deletes nothing now.", "good", cards, []
    verdict = f"Retention deletes {plural(goes, 'segment', 'segments')}, {shown_bytes(before - after)}."
    return verdict, "warning", cards, []


def _plan(rows: list[Row]) -> Made:
    actions = [row for row in rows if row["type"] == "action"]
    total: Row = next((row for row in reversed(rows) if row["type"] == "summary"), {})
    counts = Counter(row["action"] for row in actions)
    damaged = sum(row["type"] == "damage" for row in rows)
    left_out = sum(row["intactRecords"] for row in rows if row["type"] == "leftOut")
    removed, missing = total.get("removedRecords", 0), total.get("missingOffsets", 0)
    compacted = sum(row["records"] - row["kept"] for row in rows if row["type"] == "compaction")
    cards = [
        Card("directories", f"{total.get('directories', 0):,}"),
        Card("file operations", f"{len(actions):,}"),
        *([Card("damaged ranges", f"{damaged:,}", "error")] if damaged else []),
        *([Card("missing offsets", f"{missing:,}", "error")] if missing else []),
        Card("records removed", f"{removed + compacted:,}", "error" if removed else ""),
        Card("bytes removed", shown_bytes(total.get("removedBytes", 0))),
        Card("bytes written", shown_bytes(total.get("newBytes", 0))),
        Card("disk space needed", shown_bytes(total.get("peakBytes", 0))),
    ]
    if not actions:
        return "Nothing would change.", "good", cards, []
    parts = ", ".join(f"{count:,} {action}" for action, count in sorted(counts.items()))
    noun = "file operation" if len(actions) == 1 else "file operations"
    verdict = f"{len(actions):,} {noun} would be done: {parts}."
    if compacted:
        verdict = f"Compaction removes {compacted:,} {'record' if compacted == 1 else 'records'}. {verdict}"
    harm = []
    if damaged:
        harm.append(plural(damaged, "damaged range", "damaged ranges"))
    if left_out:
        harm.append(f"{plural(left_out, 'intact record', 'intact records')} left out")
    if missing:
        harm.append(f"{plural(missing, 'offset', 'offsets')} missing")
    if harm:
        verdict = f"{', '.join(harm)}. {verdict}"
    return verdict, "error" if removed or harm else "info", cards, []
