"""The table of symptoms: its entries, and the one whose message a line has."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

BROKER, CLIENT, TOOL = "broker", "client", "tool"
SPEAKERS = (BROKER, CLIENT, TOOL)

NOTHING_WRONG, WATCH, CONFIG, DAMAGE = "nothing wrong", "watch", "config", "damage"
SEVERITIES = (NOTHING_WRONG, WATCH, CONFIG, DAMAGE)
"""``watch``: Kafka goes on or repairs it by itself. ``config``: a setting, a version or a client must change."""

TABLES = (
    "commands",
    "loading",
    "disks",
    "replication",
    "cleaner",
    "metadata",
    "coordinators",
    "remote",
    "clients",
    "tools",
)
"""Files of this package, in the order in which the manual page shows their entries."""

PLACEHOLDERS = ("{partition}", "{logdir}", "{file}", "{positions}", "{offset}")
"""Of commands. ``{positions}`` is a range of bytes from the position that a message names."""


class NextCommand(NamedTuple):
    """A command and its purpose. Words of ``command`` may hold one of PLACEHOLDERS, or a word in capitals: a choice."""

    command: str
    purpose: str


class Symptom(NamedTuple):
    """An entry of the table.

    ``severity`` is one of SEVERITIES. ``message`` is the message as people know it, for the manual page. ``findings``
    are codes that kseg verify reports in this case. ``is_consequence``: the message follows from another one, which
    names the cause. ``messages``: texts with placeholders, see _VALUES. ``phrases``: short descriptions, see
    kseg.symptoms.descriptions.
    """

    name: str
    severity: str
    message: str
    cause: str
    steps: tuple[NextCommand, ...]
    messages: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    is_consequence: bool = False
    speaker: str = BROKER


# Messages of the table are texts with placeholders for what differs. A line has a message if it contains its text
# between ends of words.

_VALUES = {
    "": (r".*?", "..."),
    "n": (r"-?\d+", "N"),
    "word": (r"\S+?", "..."),
    "partition": (r"(?:[\w-]+:)?(?P<partition>[\w.-]+-\d+)", "orders-0"),
    "topic": (r"(?P<topic>[^\s,'\]]+)", "orders"),
    "number": (r"(?P<number>\d+)", "0"),
    "offset": (r"(?P<offset>\d+)", "OFFSET"),
    "position": (r"(?P<position>\d+)", "POSITION"),
    "file": (r"(?P<file>\S+)", "FILE"),
    "logdir": (r"(?P<logdir>/\S*)", "DIRECTORY"),
}
"""Placeholders of messages: the pattern of each, and its value in the manual page. ``topic`` and ``number`` together
are a partition."""

_PLACEHOLDER = re.compile(r"\{(" + "|".join(_VALUES) + r")\}")
_WORD = re.compile(r"\w+")
_COMMON = frozenset("the for in to of at is and from with while not partition offset Error segment Exception".split())


class MessageTemplate(NamedTuple):
    """A message of an entry. ``length``: characters of its text; of two messages in a line the longer one counts."""

    symptom: Symptom
    text: str
    length: int


def _read_table() -> tuple[Symptom, ...]:
    texts = [(files("kseg.symptoms") / f"{name}.toml").read_text("utf-8") for name in TABLES]
    table = tomllib.loads("\n".join(texts))
    shared = {name: NextCommand(*command) for name, command in table.pop("commands").items()}
    return tuple(_entry(name, fields, shared) for name, fields in table.items())


def _entry(name: str, fields: dict[str, Any], shared: dict[str, NextCommand]) -> Symptom:
    steps = []
    for step in fields.pop("steps"):
        command, *purpose = [step] if isinstance(step, str) else step
        steps.append(shared[command]._replace(purpose=purpose[0]) if purpose else shared[command])
    messages = tuple(fields.pop("messages", "").splitlines())
    shown = _PLACEHOLDER.sub(lambda each: _VALUES[each[1]][1], messages[0]) if messages else fields.pop("message")
    phrases = tuple(filter(None, fields.pop("words", "").split(", ")))
    return Symptom(name, steps=tuple(steps), message=shown, messages=messages, phrases=phrases, **fields)


SYMPTOMS = _read_table()


@cache
def _by_word() -> dict[str, list[MessageTemplate]]:
    """Returns the messages by a word that each line with the message has: most lines of a log have none of them."""
    found: dict[str, list[MessageTemplate]] = {}
    for symptom in SYMPTOMS:
        for text in symptom.messages:
            words = _WORD.findall(re.sub(r"\w*\0\w*", " ", _PLACEHOLDER.sub("\0", text)))
            message = MessageTemplate(symptom, text, len(_PLACEHOLDER.sub("", text)))
            found.setdefault(max(words, key=lambda word: (word not in _COMMON, len(word))), []).append(message)
    return found


@cache
def _pattern(text: str, is_strict: bool) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(text)  # text, name of a placeholder, text, ...
    parts[::2] = [re.escape(part).replace(r"\ ", r"\s+") for part in parts[::2]]
    parts[1::2] = [_VALUES[name][0] if is_strict or name in ("", "n") else r"\S.*?" for name in parts[1::2]]
    return re.compile(r"(?<!\w)" * text[0].isalnum() + "".join(parts) + r"(?!\w)" * text[-1].isalnum())


def match_of(line: str) -> tuple[Symptom, dict[str, str | None]] | None:
    """Returns the entry of the longest message that a line has, and the groups of the message; None if there is none.

    A consequence counts only if the line has no other message: it often quotes its cause.
    """
    best = max(
        _messages_of(line), key=lambda found: (not found[0].symptom.is_consequence, found[0].length), default=None
    )
    return (best[0].symptom, best[1].groupdict()) if best else None


def _messages_of(line: str) -> Iterator[tuple[MessageTemplate, re.Match[str]]]:
    by_word = _by_word()
    for word in by_word.keys() & _WORD.findall(line):
        for message in by_word[word]:
            for is_strict in (True, False):  # a message is known also if its partition has an unexpected form
                if match := _pattern(message.text, is_strict).search(line):
                    yield message, match
                    break
