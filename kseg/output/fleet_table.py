"""Many partitions as a table of one line each, sorted by a field, with totals and the batches by format and codec."""

import os
from collections import defaultdict
from typing import Any

from kseg.output.notices import on_one_line
from kseg.output.terminal import Column, Columns, Paint, widths_of
from kseg.quantities import MINUTES, plural, shown_bytes, shown_time

FLEET_WIDTH = 200
"""Width of the table in a pipe."""
_COLUMNS = (
    Column("PARTITION", is_number=False), Column("SIZE"), Column("SEGMENTS", 3), Column("BATCHES", 4),
    Column("RECORDS", 1), Column("FORMATS", 2, is_number=False), Column("DAMAGED", color="red"),
    Column("ERRORS", color="red"), Column("WARNINGS", color="yellow"),
    Column("OLDEST", 7, is_number=False), Column("NEWEST", 6, is_number=False), Column("CLEANER", 5, is_number=False),
)  # fmt: skip
_SUMMED = ("bytes", "files", "batches", "records", "damagedBytes", "errors", "warnings")


class FleetTable:
    """Takes JSON objects of summaries or of a verification's partitions; `text` returns the table. ``sort``: one of
    SUMMARY_FIELDS or CENSUS_FIELDS.
    """

    def __init__(self, sort: str, paint: Paint, width: int) -> None:
        self._sort, self._paint, self._width = sort, paint, width
        self._rows: list[dict[str, Any]] = []
        self._unlisted: set[int] = set()

    def add(self, summary: dict[str, Any], is_listed: bool = True) -> None:
        """Takes a partition. ``is_listed``: it gets a line; otherwise only the totals include it."""
        if not is_listed:
            self._unlisted.add(id(summary))
        self._rows.append(summary)

    def text(self) -> str:
        """Returns the table, "" if nothing was added."""
        if not self._rows:
            return ""
        rows = sorted_rows(self._rows, self._sort)
        is_census = "errors" in rows[0]
        chosen = [column for column in _COLUMNS if is_census or column.title not in ("ERRORS", "WARNINGS")]
        shown = [_cells(row) for row in rows if id(row) not in self._unlisted]
        total = {name: sum(row.get(name, 0) for row in rows) for name in _SUMMED}
        last = _cells(rows[0] | total)
        last |= {"PARTITION": plural(len(rows), "partition", "partitions")}
        last |= dict.fromkeys(("OLDEST", "NEWEST", "FORMATS", "CLEANER"), "")
        columns = Columns(chosen, widths_of(chosen, [*shown, last]), self._width)
        lines = [columns.heading(self._paint), *(columns.line(each, self._paint) for each in shown)]
        if self._unlisted:
            rest = plural(len(self._unlisted), "partition has", "partitions have")
            lines.append(f"{rest} no problem: --sort lists {'it' if len(self._unlisted) == 1 else 'them'}")
        lines.append(self._paint(columns.line(last), bold=True))
        return "\n".join([*lines, *self._forms()]) + "\n"

    def _forms(self) -> list[str]:
        """Returns the lines of the table of formats and codecs."""
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


def _cells(row: dict[str, Any]) -> dict[str, str]:
    codecs = defaultdict(set)
    for form in row["forms"]:
        codecs[form["format"]].add(form["compression"])
    forms = [f"{name} {'+'.join(sorted(used))}" for name, used in sorted(codecs.items())]
    return {
        "PARTITION": on_one_line(os.path.basename(path_text(row["path"]).rstrip("/"))),
        "SIZE": shown_bytes(row["bytes"]),
        "SEGMENTS": f"{row['files']:,}",
        "BATCHES": f"{row['batches']:,}",
        "RECORDS": f"{row['records']:,}",
        "FORMATS": ", ".join(forms) or "-",
        "DAMAGED": shown_bytes(row["damagedBytes"]) if row["damagedBytes"] else "-",
        "CLEANER": "-" if row["cleaner"] is None else on_one_line(row["cleaner"]["state"]),
        **{name.upper(): f"{row[name]:,}" if row.get(name) else "-" for name in ("errors", "warnings")},
        **{
            title: "-" if row[name] is None else shown_time(row[name], MINUTES)
            for title, name in (("OLDEST", "leastBaseTimestamp"), ("NEWEST", "maxTimestamp"))
        },
    }


MAX_SEPARATE_PARTITIONS = 10
"""Partitions that are summarized one by one; more have a line each."""
_SORT_KEYS = {
    "name": "path", "size": "bytes", "segments": "files", "batches": "batches", "records": "records",
    "damage": "damagedBytes", "oldest": "leastBaseTimestamp", "newest": "maxTimestamp", "cleaner": "cleaner",
    "errors": "errors",
}  # fmt: skip
SUMMARY_FIELDS, CENSUS_FIELDS = tuple(_SORT_KEYS)[:-1], tuple(_SORT_KEYS)
"""Fields that sort the table of summaries, and that of a verification."""
_RISING = frozenset({"name", "oldest"})
"""Fields sorted in rising order; all others in falling order."""
_LARGEST_TIME = 1 << 63


def sorted_rows(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Returns the objects in the order of a field: the largest first, but the first name and the oldest time."""
    is_rising = sort in _RISING
    found = sorted(rows, key=lambda row: path_text(row["path"]))
    found.sort(key=lambda row: _ordered(row[_SORT_KEYS[sort]], is_rising), reverse=not is_rising)
    return found


def path_text(path: Any) -> str:
    """Returns the path of a summary, which is an object of base64 if it is not UTF-8."""
    return path if isinstance(path, str) else str(path["base64"])


def _ordered(value: Any, is_rising: bool) -> Any:
    if isinstance(value, int):
        return value
    if value is None:
        return _LARGEST_TIME if is_rising else -1
    if isinstance(value, dict) and "dirtyBytes" in value:
        return value["dirtyBytes"] or 0
    return path_text(value)
