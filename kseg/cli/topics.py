"""Which partitions of a log directory a command is for, and what the cluster's metadata there say of their topics."""

import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import click

from kseg.errors import KsegError
from kseg.segment.files import METADATA_TOPIC, parse_partition_name
from kseg.verify.cluster_metadata import TopicSettings, read_topic_settings

_PASSED_OVER = ("-delete", "-stray")


def topic_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--topic."""
    return click.option(
        "--topic",
        multiple=True,
        metavar="GLOB",
        help="Of a log directory only partitions of such topics, as orders or 'audit-*'; may be repeated.",
    )(command)


class Topics:
    """``globs``: what --topic was given. Metadata are read once for each log directory."""

    def __init__(self, globs: tuple[str, ...] = ()) -> None:
        self._globs = globs
        self._known: dict[str, TopicSettings | None] = {}

    def known(self, directory: str) -> TopicSettings | None:
        """What the newest __cluster_metadata in a log directory tells; None where there is none."""
        path = os.path.join(os.path.abspath(directory), f"{METADATA_TOPIC}-0")
        if path not in self._known:
            self._known[path] = read_topic_settings(path) if os.path.isdir(path) else None
        return self._known[path]

    def check(self, directory: str) -> None:
        """Raises KsegError where nothing tells which partitions of a log directory are meant."""
        if self._globs:
            return
        found = self.known(directory)
        if found is None or not found.is_complete:
            why = "is not there" if found is None else "cannot be read to its end"
            raise KsegError(
                f"{directory}: {METADATA_TOPIC}-0, which tells the settings of topics, {why}: name them with --topic"
            )

    def is_meant(self, path: str, directory: str) -> bool:
        """Whether a partition of a log directory is; not one whose topic was deleted."""
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is None or place[0] == METADATA_TOPIC or name.endswith(_PASSED_OVER):
            return False
        if self._globs:
            return self.is_named(path)
        found = self.known(directory)
        return found is not None and place[0] in found.ids

    def is_named(self, path: str) -> bool:
        """Whether --topic names a partition's topic, or names none."""
        place = parse_partition_name(os.path.basename(os.path.abspath(path)))
        return not self._globs or (place is not None and any(fnmatchcase(place[0], glob) for glob in self._globs))

    def is_known(self, path: str) -> bool:
        """Whether the metadata beside a partition know its topic."""
        path = os.path.abspath(path)
        found, place = self.known(os.path.dirname(path)), parse_partition_name(os.path.basename(path))
        return found is not None and place is not None and place[0] in found.ids

    def lookup(self, path: str) -> Callable[[str], str | None]:
        """What the metadata beside a partition say of a setting of its topic."""
        path = os.path.abspath(path)
        found, place = self.known(os.path.dirname(path)), parse_partition_name(os.path.basename(path))
        if found is None or place is None or place[0] not in found.ids:
            return lambda _: None
        topic = place[0]
        return lambda name: found.setting(topic, name)
