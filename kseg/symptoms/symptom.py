"""An entry of the table of symptoms."""

from typing import NamedTuple

BROKER, CLIENT, TOOL = "broker", "client", "tool"
SPEAKERS = (BROKER, CLIENT, TOOL)

PLACEHOLDERS = ("{partition}", "{logdir}", "{file}", "{positions}", "{offset}")
"""``{positions}`` is a range of bytes from the position that a message names."""


class NextCommand(NamedTuple):
    """A command and its purpose. Words of ``command`` may hold one of PLACEHOLDERS, or a word in capitals: a choice."""

    command: str
    purpose: str


class Symptom(NamedTuple):
    """``patterns`` are regular expressions of a message. Their groups ``partition``, ``logdir``, ``file``, ``offset``
    and ``position`` are such values; ``topic`` and ``number`` together are a partition.

    ``message`` is the message as people know it, for the manual page. ``findings`` are codes that kseg verify reports
    in this case. ``is_consequence``: the message follows from another one, which names the cause.
    """

    name: str
    speaker: str
    message: str
    patterns: tuple[str, ...]
    cause: str
    steps: tuple[NextCommand, ...]
    findings: tuple[str, ...] = ()
    is_consequence: bool = False


VERIFY = NextCommand("kseg verify {partition}", "lists the damage, and the command that repairs it")
VERIFY_ALL = NextCommand(
    "kseg verify {logdir}", "checks all partitions and checkpoint files, and lists the commands to run"
)
SALVAGE_PLAN = NextCommand(
    "kseg recover --mode salvage --dry-run {partition}",
    "shows the records that salvage keeps; without --dry-run it repairs, and kseg undo reverts it",
)
REPLICA_PLAN = NextCommand(
    "kseg recover --from-replica REPLICA --dry-run {partition}",
    "takes the missing records from a copy of another replica, where their histories agree",
)
REINDEX = NextCommand("kseg reindex {partition}", "rebuilds the index files from the .log, as a broker does")
HEX = NextCommand("kseg dump --hex --position {positions} {file}", "shows the bytes at this place, field by field")
