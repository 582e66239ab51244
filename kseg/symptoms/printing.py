"""Prints symptoms, as text or as JSON Lines."""

import shutil
import textwrap

from kseg.output.notices import COPIED_INDENT, on_one_line
from kseg.output.paint import Paint, clipped
from kseg.output.sink import Sink
from kseg.quantities import plural
from kseg.shell import shell_line
from kseg.symptoms.matching import Found, commands_of

_PIPED_WIDTH, _MAX_WIDTH = 100, 100
_MAX_COMMANDS = 12
"""Commands of one symptom that text shows."""


def print_symptoms(symptoms: list[Found], form: str, sink: Sink, color: str) -> None:
    """Writes the symptoms found; ``form`` is text or json."""
    if form == "json":
        _print_json(symptoms, sink)
        return
    paint = Paint(color, sink.is_terminal)
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH) if sink.is_terminal else _PIPED_WIDTH
    for i, found in enumerate(symptoms):
        sink.write(("\n" * (i > 0) + "\n".join(_text(found, paint, width)) + "\n").encode(errors="replace"))


def _text(found: Found, paint: Paint, width: int) -> list[str]:
    symptom = found.symptom
    many = f": {found.lines} lines, the first is line {found.line_number}" if found.lines > 1 else ""
    lines = [
        f"{paint(symptom.name, bold=True)}{many}",
        "  " + paint(clipped(on_one_line(found.line), width - 2), "cyan"),
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
    if symptom.findings:
        lines += textwrap.wrap(
            f"Findings of kseg verify: {', '.join(symptom.findings)}.",
            width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False,
        )  # fmt: skip
    return lines


def _print_json(symptoms: list[Found], sink: Sink) -> None:
    from kseg.formats.json_values import encode, name_value

    for found in symptoms:
        symptom = found.symptom
        row = {
            "type": "symptom", "name": symptom.name, "speaker": symptom.speaker, "lines": found.lines,
            "lineNumber": found.line_number, "line": found.line, "cause": symptom.cause,
            "isConsequence": symptom.is_consequence, "findings": list(symptom.findings),
            "places": [
                {
                    "logDirectory": name_value(place.log_directory), "partition": name_value(place.partition),
                    "file": name_value(place.file), "name": name_value(place.name), "position": place.position,
                    "offset": place.offset,
                }
                for place in found.places.values()
            ],
            "commands": [{"argv": argv, "purpose": purpose} for argv, purpose in commands_of(found)],
        }  # fmt: skip
        sink.write(encode(row) + b"\n")
