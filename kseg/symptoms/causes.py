"""Finds the causes in a log: the gravest first, each once, with what followed from it."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kseg.symptoms.log_events import START, LogEvent, events_of
from kseg.symptoms.matching import Found, NamedPlace, place_of
from kseg.symptoms.patterns import Groups, matches_of
from kseg.symptoms.table import CONFIG, DAMAGE, NOTHING_WRONG, WATCH, Symptom

MAX_DIRECTORIES = 100_000
"""Partitions whose directory is remembered."""
MAX_TEXTS = 1000
"""Exceptions of one start that are remembered."""
NODE, DIRECTORY = "node", "directory"
STOPPED_NODE, STOPPED_DIRECTORY, DAMAGED, OTHER, UNEXPLAINED = range(5)
"""Gravity of a cause, by its effect."""
_SEVERITIES = {DAMAGE: 0, CONFIG: 1, WATCH: 2, NOTHING_WRONG: 3}
_GRAVE_LEVELS = ("WARN", "WARNING", "ERROR", "FATAL", None)

_EXCEPTION = re.compile(r"(?:Caused by: |Suppressed: )?(?P<text>[\w.$]+(?:Exception|Error|Throwable): .*)")
_LOADED = re.compile(r"\bpartition=(?P<name>[\w.-]+-\d+), dir=(?P<dir>/[^\]\n]*?)\]")
_CREATED = re.compile(r"Created log for partition (?P<name>[\w.-]+-\d+) in (?P<dir>/\S*)/[\w.-]+-\d+ ")
_LOG_DIRS = re.compile(r"\blog\.dirs = \[?(?P<dirs>/[^\]]*)|Loading logs from log dirs \w*[\[(](?P<loaded>/[^\])]*)")


class _Match(NamedTuple):
    """An entry that an event matches, with its line and the groups of the pattern."""

    symptom: Symptom
    line: str
    groups: Groups


@dataclass
class _Run:
    """What is known since the node has started last: causes by the places and exceptions of their events.

    ``doubtful`` are symptoms that are normal unless others follow, by the names of these.
    """

    by_place: dict[str, Found] = field(default_factory=dict)
    by_text: dict[str, Found] = field(default_factory=dict)
    offline: dict[str, Found] = field(default_factory=dict)
    doubtful: dict[str, Found] = field(default_factory=dict)
    last: Found | None = None
    first_times: dict[str, datetime] = field(default_factory=dict)


class CauseFinder:
    """Takes the events of a log, and gives the causes. ``takes_all``: also entries by which nothing is wrong."""

    def __init__(self, takes_all: bool = False) -> None:
        self._takes_all = takes_all
        self._causes: dict[str, Found] = {}
        self._unexplained: dict[str, Found] = {}
        self._run = _Run()
        self._directories: dict[str, str] = {}
        self._log_dirs: list[str] = []
        self._longest: dict[str, float] = {}

    def causes(self) -> list[Found]:
        """Returns the causes, the gravest first; consequences that no cause explains are among them."""
        causes = dict(self._causes)
        for name, found in self._unexplained.items():
            cause = next((each for each in causes.values() if name in each.consequences), None)
            if cause is not None and found.symptom.severity == DAMAGE and not _names(found) <= _names(cause):
                cause = None  # another partition is damaged, whose commands would be lost
            if cause is None:
                causes[name] = found
            else:
                cause.consequences[name].join(found)
        if not self._takes_all:
            for name, found in list(causes.items()):
                if self._longest.get(name, 0) < found.symptom.normal_below_seconds:
                    del causes[name]
        for found in causes.values():
            found.places = self._with_directories(found.places.values())
        return sorted(causes.values(), key=_order)

    def take(self, event: LogEvent) -> None:
        if any(text in event.lines[0] for text in START):
            self._run = _Run()
        self._note_directories(event)
        matches = _matches(event)
        for match in matches:
            self._note_time(match.symptom, event)
        if not matches or (matches[0].symptom.severity == NOTHING_WRONG and not self._takes_all):
            return
        place = self._place(event, matches)
        cause = self._cause(event, matches, place)
        for match in matches:
            if match.symptom.is_consequence:
                group = self._unexplained if cause is None else cause.consequences
                _counted(group, event, match, place)
                if match.symptom.stops == DIRECTORY and cause is not None and place.log_directory is not None:
                    self._run.offline.setdefault(place.log_directory, cause)

    def _cause(self, event: LogEvent, matches: list[_Match], place: NamedPlace) -> Found | None:
        """Returns the cause that an event names, or that an earlier event has named; None if none has."""
        run, match = self._run, matches[0]
        texts = exceptions_of(event)
        same = next((run.by_text[text] for text in texts if text in run.by_text), None)
        keys = [key for key in (_name(place), place.log_directory) if key]
        if match.symptom.is_consequence:
            near = next((run.by_place[key] for key in keys if key in run.by_place), None)
            ends_node = any(each.symptom.stops == NODE for each in matches)
            return same or near or (run.last if ends_node and not texts else None)
        if same is not None and same.symptom is not match.symptom:  # the same exception, logged again
            return same
        offline = run.offline.get(place.log_directory or "")
        if offline is None and place.log_directory is None and match.symptom.precedence < 0:
            offline = next(iter(run.offline.values()), None)
        if offline is not None and offline.symptom is not match.symptom:
            _counted(offline.consequences, event, match, place)
            return offline
        if match.symptom.name in run.doubtful:
            found = run.doubtful[match.symptom.name]
            found = self._causes.setdefault(found.symptom.name, found)
            _counted(found.consequences, event, match, place)
            return found
        if match.symptom.normal_unless and not self._takes_all:
            found = _counted({}, event, match, place)
            run.doubtful.update(dict.fromkeys(match.symptom.normal_unless, found))
            return found
        found = _counted(self._causes, event, match, place)
        if event.level in _GRAVE_LEVELS:
            run.last = found
            run.by_place.update(dict.fromkeys(keys, found))
            if len(run.by_text) < MAX_TEXTS:
                run.by_text.update(dict.fromkeys(texts, found))
        return found

    def _place(self, event: LogEvent, matches: list[_Match]) -> NamedPlace:
        """Returns the place of the first match; what its own line does not name is taken from the event."""
        place = place_of(matches[0].line, matches[0].groups)
        for line in (event.lines[0], *(match.line for match in matches[1:])):
            if place.partition is not None:
                break
            place = place.completed(place_of(line, {}))
        if place.log_directory is None and place.name in self._directories:
            place = place.within(self._directories[place.name])
        return place

    def _note_time(self, symptom: Symptom, event: LogEvent) -> None:
        """Remembers the longest time that a symptom lasts after one start."""
        name = symptom.prolongs or symptom.name
        if event.time is None or not (symptom.normal_below_seconds or symptom.prolongs):
            return
        time = datetime.fromisoformat(event.time)
        begun = self._run.first_times.setdefault(name, time)
        if (begun.tzinfo is None) == (time.tzinfo is None):
            self._longest[name] = max((time - begun).total_seconds(), self._longest.get(name, 0))

    def _note_directories(self, event: LogEvent) -> None:
        """Remembers which directory a partition is in."""
        for line in event.lines[:1] + [line for line, _ in event.candidates]:
            if dirs := _LOG_DIRS.search(line):
                self._log_dirs = [each.strip() for each in (dirs["dirs"] or dirs["loaded"]).split(",")]
            elif (found := _LOADED.search(line) or _CREATED.search(line)) and len(self._directories) < MAX_DIRECTORIES:
                self._directories[found["name"]] = found["dir"].removesuffix(f"/{found['name']}")

    def _with_directories(self, places: Iterable[NamedPlace]) -> dict[tuple[str, ...], NamedPlace]:
        """Returns places with the log directory that the log names elsewhere."""
        only = self._log_dirs[0] if len(self._log_dirs) == 1 else None
        only = only or (next(iter(self._directories.values())) if len(set(self._directories.values())) == 1 else None)
        told = []
        for place in places:
            directory = self._directories.get(place.name or "", only)
            told.append(place.within(directory) if directory and place.log_directory is None else place)
        return {place.key(): place for place in told}


def _matches(event: LogEvent) -> list[_Match]:
    """Returns the entries that an event matches, the cause first: a failure below Kafka wherever it stands, otherwise
    the last exception that is not one of many messages, otherwise the first line. Consequences come last."""
    matches: dict[str, tuple[tuple[bool, int, bool, int], _Match]] = {}
    for i, (line, patterns) in enumerate(event.candidates):
        has_cause = False
        for pattern, groups in matches_of(line, patterns):
            symptom = pattern.symptom
            if not symptom.is_consequence and has_cause:
                continue
            has_cause = has_cause or not symptom.is_consequence
            is_aside = symptom.severity == NOTHING_WRONG and i > 0
            order = (symptom.is_consequence, -symptom.precedence, is_aside, -i)
            if symptom.name not in matches or order < matches[symptom.name][0]:
                matches[symptom.name] = (order, _Match(symptom, line, groups))
    return [match for _, match in sorted(matches.values(), key=lambda each: each[0])]


def _names(found: Found) -> set[str]:
    """Returns the names of the partitions that a symptom is about."""
    return set(map(_name, found.places.values()))


def _name(place: NamedPlace) -> str:
    """Returns the name of a partition, whose directory a message may lack; empty if it names none."""
    return place.name or os.path.basename(place.partition or "")


def _order(found: Found) -> tuple[int, int, int]:
    stops = {each.symptom.stops for each in (found, *found.consequences.values())}
    if NODE in stops:
        gravity = STOPPED_NODE
    elif DIRECTORY in stops:
        gravity = STOPPED_DIRECTORY
    elif found.symptom.severity == DAMAGE:
        gravity = DAMAGED
    else:
        gravity = UNEXPLAINED if found.symptom.is_consequence else OTHER
    return gravity, _SEVERITIES[found.symptom.severity], found.line_number


def exceptions_of(event: LogEvent) -> list[str]:
    """Returns the exceptions of an event that say more than their class, each as its class and text."""
    lines = [*event.lines[1:], *(line for line, _ in event.candidates)]
    found = [_EXCEPTION.match(line.strip()) for line in lines]
    return list(dict.fromkeys(each["text"] for each in found if each is not None))


def _counted(group: dict[str, Found], event: LogEvent, match: _Match, place: NamedPlace) -> Found:
    """Counts an event for its symptom. The reason is the line that matches if it is not the first, else the last
    exception."""
    found = group.get(match.symptom.name)
    if found is None:
        first, line = event.lines[0].strip(), match.line.strip()
        reasons = [line, *reversed(exceptions_of(event))]
        reason = next((each for each in reasons if each not in first), None)
        found = group[match.symptom.name] = Found(match.symptom, event.number, first, reason)
    found.add(place, event.time)
    return found


def causes_in(lines: Iterable[bytes], takes_all: bool = False) -> list[Found]:
    """Returns the causes that the lines of a log name, the gravest first."""
    finder = CauseFinder(takes_all)
    for event in events_of(lines):
        finder.take(event)
    return finder.causes()
