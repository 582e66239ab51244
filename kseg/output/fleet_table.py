"""The summaries of many partitions as a table of one line each, with totals and the batches by format and codec."""

import os
from collections import defaultdict
from typing import Any

from kseg.output.columns import Column, Columns
from kseg.output.notices import on_one_line
from kseg.output.paint import Paint, cells
from kseg.quantities import plural, shown_bytes, shown_time

_COLUMNS = (
    Column("PARTITION", is_number=False), Column("SIZE"), Column("SEGMENTS", 3), Column("BATCHES", 4),
    Column("RECORDS", 1), Column("FORMATS", 2, is_number=False), Column("DAMAGED", color="red"),
    Column("OLDEST", 6, is_number=False), Column("NEWEST", 5, is_number=False),
)  # fmt: skip
_SORT_KEYS = {
    "name": "path", "size": "bytes", "segments": "files", "batches": "batches", "records": "records",
    "damage": "damagedBytes", "oldest": "leastTimestamp", "newest": "maxTimestamp",
}  # fmt: skip
_RISING = frozenset({"name", "oldest"})
"""Fields of which the smallest comes first; of all others the largest."""
_SUMMED = ("bytes", "files", "batches", "records", "damagedBytes")
_LARGEST_TIME = 1 << 63


class FleetTable:
    """Takes JSON objects of summaries; `text` returns the table. ``sort``: one of `kseg.dump.options.SORT_FIELDS`."""

    def __init__(self, sort: str, paint: Paint, width: int) -> None:
        self._sort, self._paint, self._width = sort, paint, width
        self._rows: list[dict[str, Any]] = []

    def add(self, summary: dict[str, Any]) -> None:
        self._rows.append(summary)

    def text(self) -> str:
        """Returns the table, "" if nothing was added."""
        if not self._rows:
            return ""
        key = _SORT_KEYS[self._sort]
        is_rising = self._sort in _RISING
        rows = sorted(self._rows, key=lambda row: _name(row["path"]))
        rows.sort(key=lambda row: _ordered(row[key], is_rising), reverse=not is_rising)
        shown = [_cells(row) for row in rows]
        total = {name: sum(row[name] for row in rows) for name in _SUMMED}
        last = _cells({**total, "path": "", "forms": [], "leastTimestamp": None, "maxTimestamp": None})
        last |= {"PARTITION": plural(len(rows), "partition", "partitions"), "OLDEST": "", "NEWEST": "", "FORMATS": ""}
        widths = {
            column.title: max(cells(each[column.title]) for each in (*shown, last, {column.title: column.title}))
            for column in _COLUMNS
        }
        columns = Columns(_COLUMNS, widths, self._width)
        lines = [columns.title(self._paint), *(columns.line(each, self._paint) for each in shown)]
        lines.append(self._paint(columns.line(last), bold=True))
        return "\n".join([*lines, *self._forms()]) + "\n"

    def _forms(self) -> list[str]:
        """Lines on who still has which format and codec."""
        sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in self._rows:
            for form in row["forms"]:
                found = sums[form["format"], form["compression"]]
                found[0] += form["batches"]
                found[1] += form["bytes"]
                found[2] += 1
        titles = f"{'FORMAT':8s}{'CODEC':8s}{'BATCHES':>12s}{'SIZE':>12s}{'PARTITIONS':>12s}"
        lines = ["", self._paint(titles, bold=True)]
        for (name, codec), (batches, size, partitions) in sorted(sums.items()):
            lines.append(f"{name:8s}{codec:8s}{batches:12,d}{shown_bytes(size):>12s}{partitions:12,d}")
        return lines


def _name(path: Any) -> str:
    """The path of a summary, which is an object of base64 if it is not UTF-8."""
    return path if isinstance(path, str) else str(path["base64"])


def _ordered(value: Any, is_rising: bool) -> Any:
    if isinstance(value, int):
        return value
    if value is None:
        return _LARGEST_TIME if is_rising else -1
    return _name(value)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    codecs = defaultdict(set)
    for form in row["forms"]:
        codecs[form["format"]].add(form["compression"])
    forms = [f"{name} {'+'.join(sorted(used))}" for name, used in sorted(codecs.items())]
    return {
        "PARTITION": on_one_line(os.path.basename(_name(row["path"]).rstrip("/"))),
        "SIZE": shown_bytes(row["bytes"]),
        "SEGMENTS": f"{row['files']:,}",
        "BATCHES": f"{row['batches']:,}",
        "RECORDS": f"{row['records']:,}",
        "FORMATS": ", ".join(forms) or "-",
        "DAMAGED": shown_bytes(row["damagedBytes"]) if row["damagedBytes"] else "-",
        "OLDEST": _day(row["leastTimestamp"]),
        "NEWEST": _day(row["maxTimestamp"]),
    }


def _day(timestamp: int | None) -> str:
    return "-" if timestamp is None else shown_time(timestamp)[:16]
