"""Prints entries of the findings table, for ``kseg verify --explain``: lines, JSON objects, or panels on a terminal."""

import textwrap
from collections.abc import Iterable

from kseg.findings.table import KINDS, Kind
from kseg.output.drawing import drawn
from kseg.output.findings.printer import COLORS, NEEDED
from kseg.output.paint import Paint
from kseg.output.sink import Sink

PIPED_WIDTH = 80


def needs_of(kind: Kind) -> str:
    """Returns the precondition of a repair as a sentence, "" for none."""
    return f"Needs {NEEDED[kind.needs]}." if kind.needs else ""


def explain(codes: Iterable[str], form: str, sink: Sink, color: str) -> None:
    """Writes the entries of the codes, as text or, for form json, as one object per line."""
    if form == "json":
        from kseg.formats.json_values import encode

        for code in codes:
            kind = KINDS[code]
            row = {"type": "explanation", "code": code, "severity": kind.severity, "sentence": kind.sentence}
            sink.write(encode(row | {"means": kind.means, "repair": kind.repair or None, "needs": kind.needs}) + b"\n")
        return
    paint = Paint(color, sink.is_terminal)
    for i, code in enumerate(codes):
        kind = KINDS[code]
        text = _panel(code, kind, paint) if sink.is_terminal else "\n" * (i > 0) + _lines(code, kind, paint)
        sink.write(text.encode())


def _paragraphs(kind: Kind) -> list[str]:
    repair = f"To repair: {kind.repair}" if kind.repair else ""
    return [part for part in (kind.sentence, kind.means, repair, needs_of(kind)) if part]


def _lines(code: str, kind: Kind, paint: Paint) -> str:
    lines = [f"{paint(code, bold=True)} ({paint(kind.severity, COLORS[kind.severity])})"]
    for part in _paragraphs(kind):
        lines += textwrap.wrap(part, PIPED_WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _panel(code: str, kind: Kind, paint: Paint) -> str:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    color = COLORS[kind.severity]
    title = Text.assemble((code, "bold"), " (", (kind.severity, color), ")")
    body = Group(*map(Text, _paragraphs(kind)))
    return drawn(Panel(body, title=title, title_align="left", border_style=color), paint.is_on)
