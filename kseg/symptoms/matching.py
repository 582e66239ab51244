"""Finds entries of the table of symptoms in a message, in a whole log or in a short description, and prints them with
their commands."""

import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.output.notices import COPIED_INDENT, on_one_line
from kseg.output.sink import Sink
from kseg.output.terminal import Paint, clipped
from kseg.quantities import plural, shell_line
from kseg.segment.files import SIDE_NAMES, parse_partition_name
from kseg.symptoms.descriptions import described
from kseg.symptoms.table import Symptom, match_of

# The files, partitions and log directories that a message names.

HEX_BYTES = 512
"""Number of bytes to show from a position on."""

_PATH = re.compile(
    r"(?<![\w.\-/])/(?:[^\s/'\",;:\[\](){}<>]+/)*[^\s/'\",;:\[\](){}<>]+"
    r"|(?<![\w.\-/])(?:[\w.@+-]+/)*[\w.-]+-\d+/[\w.-]+"  # relative: only if it is plainly a file of a partition
)
_CONTEXT = re.compile(r"\bpartition=(?P<partition>[\w.-]+-\d+)(?:, dir=(?P<dir>/[^\]\n]*?)[\])])?")
_DIRECTORY = re.compile(r"\b(?:dirs?|directory|directories) (?P<dir>/[^\s,\]]+)")
_NAMED = re.compile(
    r"(?:\b(?:[Pp]artitions?|log|append to|\w*EpochCache)[ =:]+|[{(])(?P<name>[\w.-]+-\d+)(?=[\s,.:=)\]}]|$)"
    r"|topic=(?P<topic>[\w.-]+), ?partition=(?P<number>\d+)"
)


class Place(NamedTuple):
    """The place that a message names; None for unknown. ``partition`` and ``log_directory`` are paths.

    ``name`` is a partition's name without a directory, such as orders-0.
    """

    log_directory: str | None = None
    partition: str | None = None
    file: str | None = None
    name: str | None = None
    position: int | None = None
    offset: int | None = None

    def values(self) -> dict[str, str]:
        """Returns the values for the placeholders of a command. Users replace words in capitals."""
        log_directory = self.log_directory or "LOGDIR"
        partition = self.partition or (os.path.join(log_directory, self.name) if self.name else log_directory)
        found = {"logdir": log_directory, "partition": partition, "file": self.file or "FILE"}
        if self.position is not None:
            found["positions"] = f"{self.position}..{self.position + HEX_BYTES - 1}"
        if self.offset is not None:
            found["offset"] = str(self.offset)
        return found


def place_of(message: str, groups: dict[str, str | None]) -> Place:
    """Returns the place that a message names; ``groups`` of the matching pattern take precedence."""
    file = partition = log_directory = name = None
    given = [path for path in (groups.get("file"), groups.get("logdir")) if path and path.startswith("/")]
    found = [*_PATH.findall(message), *(directory["dir"] for directory in _DIRECTORY.finditer(message))]
    for path in [*given, *(path.rstrip(".") for path in found)]:
        kind, holder = _kind(path)
        if kind == "file":
            file = file or path
            path, kind = holder, "partition" if parse_partition_name(os.path.basename(holder)) else "log directory"
        if kind == "partition":
            partition = partition or path
        else:
            log_directory = log_directory or path
    context = _CONTEXT.search(message)
    if context is not None:
        name, log_directory = context["partition"], log_directory or context["dir"]
    if groups.get("topic"):
        name = f"{groups['topic']}-{groups['number']}"
    partition_name = groups.get("partition")
    if partition_name and not partition_name.startswith("/"):
        name = partition_name
    if name is None and (named := _NAMED.search(message)):
        name = named["name"] or f"{named['topic']}-{named['number']}"
    if partition is not None:
        log_directory = log_directory or os.path.dirname(partition) or os.curdir
    elif log_directory is not None and name is not None:
        partition = os.path.join(log_directory, name)
    position, offset = groups.get("position"), groups.get("offset")
    return Place(
        log_directory, partition, file, name, int(position) if position else None, int(offset) if offset else None
    )


def _kind(path: str) -> tuple[str, str]:
    """Returns "file", "partition" or "log directory", and the directory of the path."""
    holder, name = os.path.split(path.rstrip("/"))
    if parse_partition_name(name):
        return "partition", holder
    if name in SIDE_NAMES or "." in name:
        return "file", holder
    return "log directory", path


MAX_PLACES = 20
"""Places of one symptom that are kept; all lines are counted."""
MAX_LINE = 20_000
"""Characters of a line that are searched: a pattern's time grows with a line's length."""


@dataclass(slots=True)
class Found:
    """A symptom in a log: its first line, the number of lines that show it, and their distinct places."""

    symptom: Symptom
    line_number: int
    line: str
    lines: int = 0
    places: dict[tuple[str, ...], Place] = field(default_factory=dict)
    places_left_out: int = 0

    def add(self, place: Place) -> None:
        self.lines += 1
        values = place.values()
        key = (values["partition"], values["file"], values.get("positions", ""), values.get("offset", ""))
        if key in self.places:
            return
        if len(self.places) < MAX_PLACES:
            self.places[key] = place
        else:
            self.places_left_out += 1


def symptom_of(line: str) -> tuple[Symptom, Place] | None:
    """Returns the entry of the table that a line matches, and the place in the line; None if there is none."""
    line = line[:MAX_LINE]
    match = match_of(line)
    return (match[0], place_of(line, match[1])) if match else None


def symptoms_in(lines: Iterable[str]) -> list[Found]:
    """Returns the symptoms of a log in the order of their first lines; consequences of others come last."""
    found: dict[str, Found] = {}
    for number, line in enumerate(lines, 1):
        match = symptom_of(line)
        if match is None:
            continue
        symptom, place = match
        found.setdefault(symptom.name, Found(symptom, number, line.strip())).add(place)
    return sorted(found.values(), key=lambda each: each.symptom.is_consequence)


def commands_of(found: Found) -> Iterator[tuple[list[str], str]]:
    """Yields the commands for a symptom as argument lists, each once and with its purpose.

    A command that needs a file, position or offset is omitted if no line names one.
    """
    seen: set[tuple[str, ...]] = set()
    for step in found.symptom.steps:
        for place in found.places.values():
            values = place.values()
            wanted = re.findall(r"\{(\w+)\}", step.command)
            if not set(wanted) <= values.keys() or ("file" in wanted and place.file is None):
                continue
            argv = [word.format(**values) for word in step.command.split()]
            if tuple(argv) not in seen:
                seen.add(tuple(argv))
                yield argv, step.purpose


def symptoms_of_description(text: str) -> list[Found]:
    """Returns the symptoms that a short text describes, the best first."""
    place = place_of(text, {})
    found = [Found(symptom, 1, text.strip()) for symptom in described(text)]
    for each in found:
        each.add(place)
    return found


# Prints symptoms, as text or as JSON Lines.

_PIPED_WIDTH, _MAX_WIDTH = 100, 100
_MAX_COMMANDS = 12
"""Commands of one symptom that text shows."""


def print_symptoms(symptoms: list[Found], form: str, sink: Sink, color: str) -> None:
    """Writes the symptoms found; ``form`` is text or json."""
    if form == "json":
        for found in symptoms:
            sink.put_row(_row(found))
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


def _row(found: Found) -> dict[str, Any]:
    from kseg.formats.json_values import camel_case, fields_of, name_value

    places = [
        {
            camel_case(name): name_value(each) if isinstance(each, str) else each
            for name, each in place._asdict().items()
        }
        for place in found.places.values()
    ]
    return {
        "type": "symptom",
        **fields_of(found.symptom, "name", "severity", "speaker"),
        **fields_of(found, "lines", "line_number", "line"),
        **fields_of(found.symptom, "cause", "is_consequence", "findings"),
        "places": places,
        "commands": [{"argv": argv, "purpose": purpose} for argv, purpose in commands_of(found)],
    }
