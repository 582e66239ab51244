"""Which partitions of a log directory a command is for, and what the cluster's metadata there say of their topics."""

import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import click

from kseg.changes.driver.reporter import Messages
from kseg.cleaner.topic_settings import POLICY, is_compacted
from kseg.errors import KsegError
from kseg.logdir.cluster_metadata import TopicSettings
from kseg.logdir.known_topics import KnownTopics
from kseg.output.paint import plural
from kseg.segment.files import METADATA_TOPIC, parse_partition_name

_PASSED_OVER = ("-delete", "-stray")
MOVED = "moved or deleted by a broker (-delete, -future, -stray)"
NO_SEGMENT = "no segments"
UNKNOWN_TOPIC = f"topic unknown to {METADATA_TOPIC}-0 (--topic names it)"
CLUSTER_METADATA = "the log of the cluster's metadata, which brokers cut by snapshots"
OTHER_TOPIC = "of no topic that --topic names"
_DEFAULT_POLICY = "delete"
"""What a broker follows where neither the topic nor the cluster sets cleanup.policy (log.cleanup.policy)."""


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
        self.metadata = KnownTopics()

    def known(self, directory: str) -> TopicSettings | None:
        """What the newest __cluster_metadata in a log directory tells; None where there is none."""
        return self.metadata.settings(directory)

    def topic_id(self, directory: str, topic: str) -> str | None:
        """The id of a topic; None where metadata that can be read to their end do not tell it."""
        found = self.known(directory)
        return found.ids.get(topic) if found is not None and found.is_complete else None

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

    def why_left(self, path: str, directory: str) -> str:
        """Why a partition of a log directory is not meant, "" where it is."""
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is not None and place[0] == METADATA_TOPIC:
            return CLUSTER_METADATA
        if not self.is_named(path):
            return OTHER_TOPIC
        if name.endswith(_PASSED_OVER):
            return MOVED
        return "" if self.is_meant(path, directory) else UNKNOWN_TOPIC

    def is_named(self, path: str) -> bool:
        """Whether --topic names a partition's topic, or names none."""
        place = parse_partition_name(os.path.basename(os.path.abspath(path)))
        return not self._globs or (place is not None and any(fnmatchcase(place[0], glob) for glob in self._globs))

    def tell_if_vain(self, directory: str, paths: list[str], reporter: Messages) -> None:
        """Tells where --topic names none of the partitions of a log directory, or the log of the metadata alone."""
        if not self._globs:
            return
        named = {os.path.basename(path) for path in paths if self.is_named(path)}
        if not named:
            reporter.warning(f"{directory}: holds no partition of a topic that --topic names")
        elif named == {f"{METADATA_TOPIC}-0"}:
            reporter.warning(f"{directory}: {METADATA_TOPIC}-0 is left alone: brokers cut it by snapshots")

    def policy(self, path: str) -> str | None:
        """The cleanup.policy of a partition's topic; None where no metadata beside the partition know the topic."""
        found, topic = self._settings_beside(path)
        if found is None or topic not in found.ids:
            return None
        return found.setting(topic, POLICY) or _DEFAULT_POLICY

    def policy_without_compact(self, path: str) -> str | None:
        """The cleanup.policy of a partition's topic where it is known and lacks ``compact``, else None."""
        policy = self.policy(path)
        return None if policy is None or is_compacted(policy) else policy

    def lookup(self, path: str) -> Callable[[str], str | None]:
        """What the metadata beside a partition say of a setting of its topic."""
        found, topic = self._settings_beside(path)
        if found is None or topic not in found.ids:
            return lambda _: None
        return lambda name: found.setting(topic, name)

    def _settings_beside(self, path: str) -> tuple[TopicSettings | None, str]:
        """What the metadata beside a partition tell, and the name of its topic. A link counts as the partition."""
        path = os.path.realpath(path)
        found, place = self.known(os.path.dirname(path)), parse_partition_name(os.path.basename(path))
        return found, place[0] if place is not None else ""


def tell_left_alone(directory: str, left: Mapping[str, int], reporter: Messages) -> None:
    """How many partitions of a log directory a command is not for, by the reason, as far as that may surprise."""
    for why, count in left.items():
        if why not in (CLUSTER_METADATA, OTHER_TOPIC):
            reporter.warning(f"{directory}: {plural(count, 'partition', 'partitions')} left alone: {why}")
