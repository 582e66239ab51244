"""The table of symptoms: its entries, and the first one whose pattern a line matches."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

BROKER, CLIENT, TOOL = "broker", "client", "tool"
SPEAKERS = (BROKER, CLIENT, TOOL)

NOTHING_WRONG, WATCH, CONFIG, DAMAGE = "nothing wrong", "watch", "config", "damage"
SEVERITIES = (NOTHING_WRONG, WATCH, CONFIG, DAMAGE)
"""``watch``: Kafka goes on or repairs it by itself. ``config``: a setting, a version or a client must change."""

TABLES = ("brokers", "clients")
"""Files of this package, in the order in which their entries are tried."""

PLACEHOLDERS = ("{partition}", "{logdir}", "{file}", "{positions}", "{offset}")
"""``{positions}`` is a range of bytes from the position that a message names."""


class NextCommand(NamedTuple):
    """A command and its purpose. Words of ``command`` may hold one of PLACEHOLDERS, or a word in capitals: a choice."""

    command: str
    purpose: str


class Symptom(NamedTuple):
    """An entry of the table. ``patterns`` are regular expressions of a message. Their groups ``partition``, ``logdir``,
    ``file``, ``offset`` and ``position`` are such values; ``topic`` and ``number`` together are a partition.

    ``severity`` is one of SEVERITIES. ``message`` is the message as people know it, for the manual page. ``findings``
    are codes that kseg verify reports in this case. ``is_consequence``: the message follows from another one, which
    names the cause. ``phrases``: short descriptions of it, see `symptoms_of_description`.
    """

    name: str
    severity: str
    message: str
    cause: str
    steps: tuple[NextCommand, ...]
    patterns: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    is_consequence: bool = False
    speaker: str = BROKER


def _read_table() -> tuple[Symptom, ...]:
    """Returns the entries in the order in which they are tried: consequences come last, because the same line often has
    the text of their cause. A long pattern is a list of its parts."""
    texts = [(files("kseg.symptoms") / f"{name}.toml").read_text("utf-8") for name in TABLES]
    table = tomllib.loads("\n".join(texts))
    shared = table.pop("commands")
    entries = []
    for name, fields in table.items():
        steps = [NextCommand(*(shared[step] if isinstance(step, str) else step)) for step in fields.pop("steps")]
        patterns = tuple(map("".join, fields.pop("patterns", ())))
        phrases = tuple(filter(None, fields.pop("phrases", "").split(", ")))
        entries.append(Symptom(name, steps=tuple(steps), patterns=patterns, phrases=phrases, **fields))
    return tuple(sorted(entries, key=lambda entry: entry.is_consequence))


SYMPTOMS = _read_table()
_compiled = cache(re.compile)


@cache
def _any_pattern() -> re.Pattern[str]:
    """Returns a pattern that matches if any pattern does. Most lines of a log match none."""
    nameless = (re.sub(r"\(\?P<\w+>", "(?:", each) for symptom in SYMPTOMS for each in symptom.patterns)
    return re.compile("|".join(f"(?:{each})" for each in nameless))


def match_of(line: str) -> tuple[Symptom, dict[str, str | None]] | None:
    """Returns the first entry that a line matches, and the groups of its pattern; None if there is none."""
    if not _any_pattern().search(line):
        return None
    for symptom in SYMPTOMS:
        for pattern in symptom.patterns:
            if match := _compiled(pattern).search(line):
                return symptom, match.groupdict()
    return None
