"""Rows as an HTML table, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 100
"""Rows that are shown; the others are counted."""


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], failures: Sequence[str] = ()
) -> str:
    """Returns a table, or only the caption if there are no rows, and a list of failures. None is an empty cell."""
    lines, left_out = list[str](), 0
    for row in rows:
        if len(lines) < MAX_ROWS:
            lines.append(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>")
        else:
            left_out += 1
    if left_out:
        lines.append(f'<tr><td colspan="{len(columns)}">and {left_out} more</td></tr>')
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    table = f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{''.join(lines)}</table>"
    items = [f"<li>{_cell(failure)}</li>" for failure in failures[:MAX_ROWS]]
    if len(failures) > MAX_ROWS:
        items.append(f"<li>and {len(failures) - MAX_ROWS} more</li>")
    failed = f"<p>Failed:</p><ul>{''.join(items)}</ul>" if items else ""
    return (table if lines else f"<p>{escape(caption)}</p>") + failed


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text.encode("utf-8", "backslashreplace").decode())
