"""Draws a summary on a terminal: a panel with the counts, a table of formats with their shares, and the contents."""

import os
from collections.abc import Sequence
from typing import Any

from kseg.output.drawing import drawn
from kseg.output.notices import on_one_line
from kseg.output.paint import Paint
from kseg.output.summary_text import Fact, cleaner_facts, savings_lines, summary_facts, summary_size
from kseg.quantities import shown_bytes
from kseg.segment.recompression import Saving
from kseg.segment.summary import Form, LogSummary

_BAR_WIDTH = 16


def summary_panel(
    summary: LogSummary, path: str, savings: Sequence[Saving], paint: Paint, cleaner: dict[str, Any] | None = None
) -> str:
    """Returns the panel as text; ``cleaner``: see `cleaner_facts`.

    A title is cut at the width of the terminal, so the whole path stands below it.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    counted, contained = summary_facts(summary)
    contained += cleaner_facts(cleaner)
    head = [Text(on_one_line(path), overflow="fold"), Text(summary_size(summary))]
    parts: list[Any] = [*head, Text(), _grid(counted), Text()]
    if forms := summary.forms():
        parts += [_form_table(forms), Text()]
    parts.append(_grid(contained))
    parts += [Text.from_ansi(line) for line in savings_lines(savings, paint)]
    title = Text(on_one_line(os.path.basename(path) or path), "bold")
    return drawn(Panel(Group(*parts), title=title, title_align="left"), paint.is_on)


def _grid(facts: list[Fact]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for fact in facts:
        number = f"{fact.number}  {fact.more}" if fact.more else fact.number
        grid.add_row(Text(fact.label, fact.color or "cyan"), Text(number, fact.color or ""))
    return grid


def _form_table(forms: list[Form]) -> Any:
    from rich.bar import Bar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("format", "left"), ("codec", "left"), ("batches", "right"), ("records", "right"), ("bytes", "right"),
        ("ratio", "right"), ("share", "left"),
    ):  # fmt: skip
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    total = sum(form.bytes for form in forms) or 1
    for form in forms:
        ratio = "-" if form.ratio is None else f"{form.ratio:.2f}"
        bar = Bar(total, 0, form.bytes, width=_BAR_WIDTH, color="green")
        numbers = (f"{form.batches:,}", f"{form.records:,}", shown_bytes(form.bytes), ratio)
        table.add_row(form.format, form.compression, *numbers, bar)
    return table
