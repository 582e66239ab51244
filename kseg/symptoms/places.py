"""The files, partitions and log directories that a message names."""

import os
import re
from typing import NamedTuple

from kseg.segment.files import SIDE_NAMES, parse_partition_name

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
    for path in _paths(message, groups):
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
    given = groups.get("partition")
    if given and not given.startswith("/"):
        name = given
    if name is None and (found := _NAMED.search(message)):
        name = found["name"] or f"{found['topic']}-{found['number']}"
    if partition is not None:
        log_directory = log_directory or os.path.dirname(partition) or os.curdir
    elif log_directory is not None and name is not None:
        partition = os.path.join(log_directory, name)
    position, offset = groups.get("position"), groups.get("offset")
    return Place(
        log_directory, partition, file, name, int(position) if position else None, int(offset) if offset else None
    )


def _paths(message: str, groups: dict[str, str | None]) -> list[str]:
    given = [path for path in (groups.get("file"), groups.get("logdir")) if path and path.startswith("/")]
    found = [path.rstrip(".") for path in _PATH.findall(message)]
    found += [directory["dir"].rstrip(".") for directory in _DIRECTORY.finditer(message)]
    return [*given, *found]


def _kind(path: str) -> tuple[str, str]:
    """Returns "file", "partition" or "log directory", and the directory of the path."""
    holder, name = os.path.split(path.rstrip("/"))
    if parse_partition_name(name):
        return "partition", holder
    if name in SIDE_NAMES or "." in name:
        return "file", holder
    return "log directory", path
