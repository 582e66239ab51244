"""Finds the symptoms in a message or in a whole log."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kseg.symptoms.places import Place, place_of
from kseg.symptoms.symptom import Symptom
from kseg.symptoms.table import SYMPTOMS

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


@cache
def _patterns() -> tuple[tuple[Symptom, tuple[re.Pattern[str], ...]], ...]:
    return tuple((symptom, tuple(re.compile(each) for each in symptom.patterns)) for symptom in SYMPTOMS)


@cache
def _any_pattern() -> re.Pattern[str]:
    """Returns a pattern that matches if any pattern does. Most lines of a log match none."""
    nameless = (re.sub(r"\(\?P<\w+>", "(?:", each) for symptom in SYMPTOMS for each in symptom.patterns)
    return re.compile("|".join(f"(?:{each})" for each in nameless))


def symptom_of(line: str) -> tuple[Symptom, Place] | None:
    """Returns the first entry of the table that a line matches, and the place in the line; None if there is none."""
    line = line[:MAX_LINE]
    if not _any_pattern().search(line):
        return None
    for symptom, patterns in _patterns():
        for pattern in patterns:
            if match := pattern.search(line):
                return symptom, place_of(line, match.groupdict())
    return None


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
