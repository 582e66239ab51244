"""Finds entries of the table of symptoms in a line or in a short description, with the places that it names."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from kseg.segment.files import SIDE_NAMES, parse_partition_name
from kseg.symptoms.descriptions import described
from kseg.symptoms.patterns import MAX_LINE, PatternIndex, matches_of
from kseg.symptoms.table import Symptom

# The files, partitions and log directories that a message names.

HEX_BYTES = 512
"""Number of bytes to show from a position on."""

_CHAR = r"[^\s/'\",;:\[\](){}<>]"
_SPACED = rf"(?<![\w.\-/])/(?:{_CHAR}+(?: {_CHAR}+)*/)*"
"""The directories of a path, whose names may have spaces."""
_PATH = re.compile(
    # With spaces only if its end is certain: a partition, a segment's file, the end of a sentence, or no letter of it.
    rf"{_SPACED}(?:[\w.-]+-\d+(?![\w.\-/])|\d{{20}}\.\w+|{_CHAR}+?(?=\.?(?: \(|['\",:\])}}>]|$)|\. ))"
    rf"|(?P<cut>{_SPACED}{_CHAR}+)"
    r"|(?<![\w.\-/])(?:[\w.@+-]+/)*[\w.-]+-\d+/[\w.-]+"  # relative: only if it is plainly a file of a partition
)
_CONTEXT = re.compile(r"\bpartition=(?P<partition>[\w.-]+-\d+)(?:, dir=(?P<dir>/[^\]\n]*?)[\])])?")
_DIRECTORY = re.compile(r"\b(?:dirs?|directory|directories) (?P<dir>/[^\s,\]]+)")
_NAMED = re.compile(
    r"(?:\b(?:[Pp]artitions?|log|append to|\w*EpochCache)[ =:]+|[{(])(?P<name>[\w.-]+-\d+)(?=[\s,.:=)\]}]|$)"
    r"|(?:(?P<field>topic=)|(?<![\w.-]))(?P<topic>[\w.-]+)"  # topic=orders, partition=3 or, of librdkafka, orders [3]:
    r"(?(field), ?partition=| \[)(?P<number>\d+)(?(field)|\](?=: | MessageSet))"
)


class NamedPlace(NamedTuple):
    """The place that a message names; None for unknown. ``partition`` and ``log_directory`` are paths.

    ``name`` is a partition's name without a directory, such as orders-0. ``other`` is a second partition, ``disks`` are
    further log directories of the node.
    """

    log_directory: str | None = None
    partition: str | None = None
    file: str | None = None
    name: str | None = None
    position: int | None = None
    offset: int | None = None
    other: str | None = None
    disks: tuple[str, ...] = ()

    def values(self) -> dict[str, str]:
        """Returns the values for the placeholders of a command. Users replace words in capitals."""
        log_directory = self.log_directory or "LOGDIR"
        partition = self.partition or (os.path.join(log_directory, self.name) if self.name else log_directory)
        found = {
            "logdir": log_directory,
            "logdirs": log_directory,
            "partition": partition,
            "file": self.file or "FILE",
            "one": partition if partition != log_directory else os.path.join(log_directory, "TOPIC-N"),
            "other": self.other or "OTHER",
        }
        if self.position is not None:
            found["positions"] = f"{self.position}..{self.position + HEX_BYTES - 1}"
        if self.offset is not None:
            found["offset"] = str(self.offset)
        return found

    def key(self) -> tuple[str, ...]:
        values = self.values()
        return values["partition"], values["file"], values.get("positions", ""), values.get("offset", "")

    def completed(self, other: "NamedPlace") -> "NamedPlace":
        """Returns this place with the directory, partition and file of another, where they can be the same."""
        if self.name is not None and other.name is not None and self.name != other.name:
            return self
        missing = {name: value for name, value in other._asdict().items() if getattr(self, name) is None}
        return self._replace(**missing)

    def within(self, log_directory: str) -> "NamedPlace":
        """Returns this place in a log directory."""
        partition = os.path.join(log_directory, self.name) if self.name else None
        return self._replace(log_directory=log_directory, partition=partition)


def place_of(message: str, groups: dict[str, str | None]) -> NamedPlace:
    """Returns the place that a message names; ``groups`` of the matching pattern take precedence."""
    file = partition = log_directory = name = None
    first, *disks = (groups.get("logdirs") or "").split(", ")
    context = _CONTEXT.search(message)
    text = message.replace(context[0], "") if context is not None and context["dir"] else message
    found = [*_PATH.finditer(text)]
    # The first words of paths with spaces are none.
    cut = {each[0].split()[0] for each in found if " " in each[0]}
    given = [groups.get("file"), groups.get("logdir"), first, *(each["dir"] for each in _DIRECTORY.finditer(text))]
    paths = [path for path in given[:3] if path and path.startswith("/")]
    paths += [each[0] for each in found if " " not in each[0] or not each["cut"]] + given[3:]
    for path in (path.rstrip(".") for path in paths if path not in cut):
        kind, holder = _kind(path)
        if kind == "file":
            file = file or path
            path, kind = holder, "partition" if parse_partition_name(os.path.basename(holder)) else "log directory"
        if kind == "partition":
            partition = partition or path
        else:
            log_directory = log_directory or path
    if context is not None:
        name, log_directory = context["partition"], context["dir"] or log_directory
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
    return NamedPlace(
        log_directory, partition, file, name, int(position) if position else None, int(offset) if offset else None,
        None if groups.get("other") in cut else groups.get("other"), tuple(disks),
    )  # fmt: skip


def _kind(path: str) -> tuple[str, str]:
    """Returns "file", "partition" or "log directory", and the directory of the path."""
    holder, name = os.path.split(path.rstrip("/"))
    if parse_partition_name(name):
        return "partition", holder
    if name in SIDE_NAMES or "." in name:
        return "file", holder
    return "log directory", path


MAX_PLACES = 20
"""Places of one symptom that are kept; all messages are counted."""


@dataclass(slots=True)
class Found:
    """A symptom in a log: its first line, the number of messages that show it, the times of the first and the last,
    and their distinct places. ``reason`` is a further line of the first message, an exception. ``consequences`` are
    symptoms that follow from it, by their names."""

    symptom: Symptom
    line_number: int
    line: str
    reason: str | None = None
    count: int = 0
    first_time: str | None = None
    last_time: str | None = None
    places: dict[tuple[str, ...], NamedPlace] = field(default_factory=dict)
    places_left_out: int = 0
    consequences: "dict[str, Found]" = field(default_factory=dict)

    def add(self, place: NamedPlace, time: str | None = None) -> None:
        self.count += 1
        self.first_time, self.last_time = self.first_time or time, time or self.last_time
        if place.key() in self.places:
            return
        if len(self.places) < MAX_PLACES:
            self.places[place.key()] = place
        else:
            self.places_left_out += 1

    def join(self, other: "Found") -> None:
        """Counts the messages of the same symptom elsewhere in the log."""
        if other.line_number < self.line_number:
            self.line_number, self.line, self.reason = other.line_number, other.line, other.reason
        self.count += other.count
        times = [time for time in (self.first_time, other.first_time, self.last_time, other.last_time) if time]
        self.first_time, self.last_time = min(times, default=None), max(times, default=None)


def symptom_of(line: str) -> tuple[Symptom, NamedPlace] | None:
    """Returns the entry of the table that a line matches, and the place in the line; None if there is none."""
    line = line[:MAX_LINE]
    candidates = _index().candidates(line.encode(errors="replace")) or ()
    match = next(matches_of(line, filter(None, candidates)), None)
    return (match[0].symptom, place_of(line, match[1])) if match else None


_index = cache(PatternIndex)


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
            argv += place.disks if step.command.endswith(" {logdirs}") else ()
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
