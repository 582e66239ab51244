"""The order of a table's partitions: the fields that --sort names, and the sorting.

Apart from the table, so that the help of a command does not import the table.
"""

from typing import Any

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
