"""Prints entries of the findings table, for ``kseg verify --explain``."""

import shutil
import textwrap
from collections.abc import Iterable

from kseg.findings.table import KINDS, Kind
from kseg.output.findings.printer import COLORS, NEEDED
from kseg.output.paint import Paint
from kseg.output.sink import Sink

PIPED_WIDTH = 80


def needs_of(kind: Kind) -> str:
    """Returns a sentence about the precondition of a repair; "" if there is none."""
    return f"Needs {NEEDED[kind.needs]}." if kind.needs else ""


def explain(codes: Iterable[str], form: str, sink: Sink, color: str) -> None:
    """Writes the entries of the codes, as text or, for form json, as one object a line."""
    if form == "json":
        from kseg.formats.json_values import encode

        for code in codes:
            kind = KINDS[code]
            row = {"type": "explanation", "code": code, "severity": kind.severity, "sentence": kind.sentence}
            sink.write(encode(row | {"means": kind.means, "repair": kind.repair or None, "needs": kind.needs}) + b"\n")
        return
    paint = Paint(color, sink.is_terminal)
    width = min(shutil.get_terminal_size().columns, 100) if sink.is_terminal else PIPED_WIDTH
    for i, code in enumerate(codes):
        kind = KINDS[code]
        text = [f"{paint(code, bold=True)} ({paint(kind.severity, COLORS[kind.severity])})"]
        for part in (kind.sentence, kind.means, f"To repair: {kind.repair}" if kind.repair else "", needs_of(kind)):
            text += textwrap.wrap(part, width, initial_indent="  ", subsequent_indent="  ")
        sink.write(("\n" * (i > 0) + "\n".join(text) + "\n").encode())
