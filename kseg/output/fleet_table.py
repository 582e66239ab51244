"""Many partitions as a table of one line each, sorted by a field, with totals and the batches by format and codec."""

import os
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kseg.formats.json_values import name_of
from kseg.output.notices import Paint, on_one_line
from kseg.output.terminal import Columns, columns_of
from kseg.quantities import MINUTES, plural, shown_bytes, shown_time
from kseg.segment.files import directory_name

FLEET_WIDTH = 200
"""Width of the table in a pipe."""
_COLUMNS = columns_of(
    "PARTITION SIZE# SEGMENTS#/3 BATCHES#/4 RECORDS#/1 FORMATS/2 DAMAGED# ERRORS# WARNINGS# OLDEST/7 NEWEST/6 "
    "CLEANER/5",
    DAMAGED="red", ERRORS="red", WARNINGS="yellow",
)  # fmt: skip
_SUMMED = ("bytes", "files", "batches", "records", "damagedBytes", "errors", "warnings")


def fleet_table(
    rows: list[dict[str, Any]], sort: str, paint: Paint, width: int,
    is_listed: Callable[[dict[str, Any]], bool] = lambda _row: True, lacks: str = "problem",
) -> str:  # fmt: skip
    """Returns the table of JSON objects of summaries or of a verification's partitions, "" for none. ``sort``: one of
    SUMMARY_FIELDS or CENSUS_FIELDS. ``is_listed``: whether one gets a line; otherwise only the totals include it,
    as it has none of what ``lacks`` names.
    """
    if not rows:
        return ""
    is_census = "errors" in rows[0]
    chosen = [column for column in _COLUMNS if is_census or column.title not in ("ERRORS", "WARNINGS")]
    shown = [_cells(row) for row in sorted_rows(rows, sort) if is_listed(row)]
    sums = {name: sum(row.get(name, 0) for row in rows) for name in _SUMMED}
    last = _cells(rows[0] | sums | {"allBytes": sum(map(_size, rows))})
    last |= {"PARTITION": plural(len(rows), "partition", "partitions")}
    last |= dict.fromkeys(("OLDEST", "NEWEST", "FORMATS", "CLEANER"), "")
    columns = Columns(chosen, [*shown, last], width)
    lines = [*columns.lines(shown, paint)]
    if unlisted := len(rows) - len(shown):
        rest = plural(unlisted, "partition has", "partitions have")
        lines.append(f"{rest} no {lacks}: --sort lists {'it' if unlisted == 1 else 'them'}")
    lines.append(paint(columns.line(last), bold=True))
    # The table of formats and codecs.
    by_form: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        for form in row["forms"]:
            found = by_form[form["format"], form["compression"]]
            found[0] += form["batches"]
            found[1] += form["bytes"]
            found[2] += 1
    titles = f"{'FORMAT':8s}{'CODEC':8s}{'BATCHES':>12s}{'SIZE':>12s}{'PARTITIONS':>12s}"
    lines += ["", paint(titles, bold=True)]
    for (name, codec), (batches, size, partitions) in sorted(by_form.items()):
        lines.append(f"{name:8s}{codec:8s}{batches:12,d}{shown_bytes(size):>12s}{partitions:12,d}")
    return "\n".join(lines) + "\n"


def _size(row: dict[str, Any]) -> int:
    """Returns the bytes of all files of a partition, of its segments if they are not known."""
    return int(row["bytes"] if row.get("allBytes") is None else row["allBytes"])


def _cells(row: dict[str, Any]) -> dict[str, str]:
    codecs = defaultdict(set)
    for form in row["forms"]:
        codecs[form["format"]].add(form["compression"])
    forms = [f"{name} {'+'.join(sorted(used))}" for name, used in sorted(codecs.items())]
    path = name_of(row["path"]).rstrip("/")
    name = directory_name(path)
    if name.isdigit():  # as Aiven's plugin names partitions, in a folder of the topic
        name = f"{os.path.basename(os.path.dirname(path))}/{name}"
    return {
        "PARTITION": on_one_line(name),
        "SIZE": shown_bytes(_size(row)),
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

    def key(row: dict[str, Any]) -> Any:
        value = _size(row) if sort == "size" else row[_SORT_KEYS[sort]]
        if value is None:
            return _LARGEST_TIME if is_rising else -1
        if isinstance(value, dict) and "dirtyBytes" in value:
            return value["dirtyBytes"] or 0
        return value if isinstance(value, int) else name_of(value)

    by_name = sorted(rows, key=lambda row: name_of(row["path"]))
    return sorted(by_name, key=key, reverse=not is_rising)
