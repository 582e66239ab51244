"""Prints symptoms, as text or as JSON Lines."""

import shutil
import textwrap
from typing import Any

from kseg.output.notices import COPIED_INDENT, Paint, on_one_line
from kseg.output.sink import Sink
from kseg.output.terminal import clipped
from kseg.quantities import plural, shell_line
from kseg.symptoms.matching import Found, commands_of

_MAX_WIDTH = 100
"""Largest width of text on a terminal; its width elsewhere."""
_MAX_COMMANDS = 12
"""Commands of one symptom that text shows."""


def print_symptoms(symptoms: list[Found], form: str, sink: Sink, color: str) -> None:
    """Writes the symptoms found; ``form`` is text or json."""
    if form == "json":
        for found in symptoms:
            sink.put_row(_row(found))
        return
    paint = Paint(color, sink.is_terminal)
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH) if sink.is_terminal else _MAX_WIDTH
    for i, found in enumerate(symptoms):
        sink.write(("\n" * (i > 0) + "\n".join(_text(found, paint, width)) + "\n").encode(errors="replace"))


def _text(found: Found, paint: Paint, width: int) -> list[str]:
    symptom = found.symptom
    lines = [
        f"{paint(symptom.name, bold=True)}{_when(found)}",
        *("  " + paint(clipped(on_one_line(line), width - 2), "cyan") for line in (found.line, found.reason) if line),
    ]
    lines += textwrap.wrap(symptom.cause, width, initial_indent="  ", subsequent_indent="  ")
    commands = list(commands_of(found))
    for argv, purpose in commands[:_MAX_COMMANDS]:
        lines.append(COPIED_INDENT + paint(shell_line(argv), "green"))
        lines += textwrap.wrap(purpose, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    if len(commands) > _MAX_COMMANDS:
        rest = plural(len(commands) - _MAX_COMMANDS, "command", "commands")
        lines.append(f"    and {rest} for other places; --format json prints all of them")
    if found.places_left_out:
        lines.append(f"    and {plural(found.places_left_out, 'place', 'places')} more")
    for follower in found.consequences.values():
        lines.append(f"  Followed by {paint(follower.symptom.name, bold=True)}{_when(follower)}")
        lines.append("    " + paint(clipped(on_one_line(follower.line), width - 4), "cyan"))
    if symptom.findings:
        lines += textwrap.wrap(
            f"Findings of kseg verify: {', '.join(symptom.findings)}.",
            width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False,
        )  # fmt: skip
    return lines


def _when(found: Found) -> str:
    """Returns the number of messages in a log, the line of the first, and the times."""
    if found.count == 1 and found.line_number == 1:
        return ""
    many = (
        f"{found.count} messages from line {found.line_number} on" if found.count > 1 else f"line {found.line_number}"
    )
    times = dict.fromkeys(time for time in (found.first_time, found.last_time) if time is not None)
    return ": " + ", ".join([many, *([" to ".join(times)] if times else [])])


def _row(found: Found) -> dict[str, Any]:
    from kseg.formats.json_values import camel_case, fields_of, name_value

    places = [
        {
            camel_case(name): name_value(each) if isinstance(each, str) else each
            for name, each in place._asdict().items()
        }
        | {"disks": [name_value(each) for each in place.disks]}
        for place in found.places.values()
    ]
    appearance = ("count", "first_time", "last_time", "line_number", "line", "reason")
    return {
        "type": "symptom",
        **fields_of(found.symptom, "name", "severity", "speaker"),
        **fields_of(found, *appearance),
        **fields_of(found.symptom, "cause", "is_consequence", "findings"),
        "consequences": [
            {"name": each.symptom.name, **fields_of(each, *appearance)} for each in found.consequences.values()
        ],
        "places": places,
        "commands": [{"argv": argv, "purpose": purpose} for argv, purpose in commands_of(found)],
    }
