"""Finds the rows of a batch whose keys, values or headers match."""

import re
from collections.abc import Iterable

from kseg.formats.rows import Rows
from kseg.kernel.layout.rows import ROW_HEADER_COUNT, ROW_KEY, ROW_KEY_SIZE, ROW_VALUE, ROW_WIDTH
from kseg.segment.items import RowSpan, headers_of

Patterns = tuple[re.Pattern[bytes], ...]


def rows_between(rows: Rows, wanted: list[int] | range, column: int, low: int, high: int) -> list[int]:
    """Returns the rows with values from ``low`` to ``high`` in a column."""
    values = rows.column(column)
    return [i for i in wanted if low <= values[i] <= high]


def matches_any(patterns: Patterns, texts: Iterable[bytes]) -> bool:
    """Whether any of the texts contains a match of any of the patterns."""
    return any(pattern.search(text) for text in texts for pattern in patterns)


def header_text(key: bytes, value: bytes | None) -> bytes:
    """Returns the form in which a header is searched."""
    return key + b"=" + (value or b"")


def matching_rows(
    rows: Rows, wanted: list[int] | range, patterns: Patterns, *columns: int, with_headers: bool = False
) -> list[int] | range:
    """Returns the rows of which a column or header contains a match, all without patterns. Null never does."""
    if not patterns:
        return wanted
    found, payload = set[int](), rows.payload
    for column in columns:
        starts, sizes = rows.column(column), rows.column(column + 1)
        for search in (pattern.search for pattern in patterns):
            found.update(i for i in wanted if sizes[i] >= 0 and search(payload[starts[i] : starts[i] + sizes[i]]))
    if with_headers and any(rows.column(ROW_HEADER_COUNT)):
        for i in wanted:
            if matches_any(patterns, (header_text(key, value) for key, value in headers_of(rows, i * ROW_WIDTH))):
                found.add(i)
    return sorted(found)


def rows_with_key(rows: Rows, key: bytes) -> list[int]:
    """Returns the rows with this key.

    Compares sizes first, and keys only if the bytes occur among the rows at all; both are loops in C.
    """
    sizes = rows.column(ROW_KEY_SIZE)
    if len(key) not in sizes:
        return []
    # The rows cover the payload from the first key to the last value or key.
    last = (rows.count - 1) * ROW_WIDTH
    ends = (rows.rows[last + at] + max(rows.rows[last + at + 1], 0) for at in (ROW_KEY, ROW_VALUE))
    if key not in bytes(rows.payload[rows.rows[ROW_KEY] : max(ends)]):
        return []
    starts = rows.column(ROW_KEY)
    return [i for i, at in enumerate(starts) if sizes[i] == len(key) and rows.payload[at : at + len(key)] == key]


def spans_of(wanted: list[int] | range) -> list[RowSpan]:
    """Returns runs of adjacent rows."""
    if isinstance(wanted, range):
        return [(wanted.start, wanted.stop)]
    spans: list[RowSpan] = []
    for i in wanted:
        if spans and spans[-1][1] == i:
            spans[-1] = (spans[-1][0], i + 1)
        else:
            spans.append((i, i + 1))
    return spans
