"""The table of symptoms."""

import re
import tomllib
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

PLACEHOLDERS = ("{partition}", "{one}", "{other}", "{logdir}", "{logdirs}", "{file}", "{positions}", "{offset}")
"""Of commands. ``{partition}``: without one the log directory, but ``{one}`` is always a partition. ``{other}``: a
second one. ``{logdirs}``: all log directories of a message, at the command's end. ``{positions}``: a range of bytes
from the position of a message on."""


class NextCommand(NamedTuple):
    """A command and its purpose. Words of ``command`` may hold one of PLACEHOLDERS, or a word in capitals: a choice."""

    command: str
    purpose: str


class Symptom(NamedTuple):
    """An entry of the table.

    ``severity`` is one of SEVERITIES. ``message`` is the message as people know it, for the manual page. ``findings``
    are codes that kseg verify reports in this case. ``is_consequence``: the message follows from another one, which
    names the cause; in a log it stands under that. ``messages``: texts with placeholders, see VALUES. ``phrases``:
    short descriptions, see kseg.symptoms.descriptions. In a log:

    - ``precedence``: of the entries that one message and its exception have, the highest is the cause: 1 for failures
      below Kafka, -1 for exceptions that many messages have
    - ``stops``: "node" or "directory", if the message tells its end
    - ``normal_unless``: the entry counts only if one of these entries follows, which then are its consequences
    - ``normal_below_seconds``: it counts only if its messages after one start, with those of entries whose ``prolongs``
      names it, span so much time
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
    precedence: int = 0
    stops: str = ""
    normal_unless: tuple[str, ...] = ()
    normal_below_seconds: int = 0
    prolongs: str = ""
    speaker: str = BROKER


# Messages of the table are texts with placeholders for what differs. A line has a message if it contains its text
# between ends of words.

VALUES = {
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
    "logdirs": (r"(?P<logdirs>/[^,\s]*(?:, /[^,\s]*)*)", "DIRECTORY, ..."),
    "other": (r"(?P<other>/\S*[^\s.,!])", "DIRECTORY"),
    "leader": (r"(?P<leader>\d+)", "N"),
    "same-leader": (r"(?P=leader)", "N"),
}
"""Placeholders of messages: the pattern of each, and its value in the manual page. ``topic`` and ``number`` together
are a partition."""

PLACEHOLDER = re.compile(r"\{(" + "|".join(VALUES) + r")\}")


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
    shown = PLACEHOLDER.sub(lambda each: VALUES[each[1]][1], messages[0]) if messages else fields.pop("message")
    phrases = tuple(filter(None, fields.pop("words", "").split(", ")))
    fields["normal_unless"] = tuple(fields.pop("normal_unless", ()))
    return Symptom(name, steps=tuple(steps), message=shown, messages=messages, phrases=phrases, **fields)


SYMPTOMS = _read_table()
