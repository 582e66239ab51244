"""Topic settings of a log directory, and the selection of its partitions by --topic or by its cluster metadata."""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from kseg.errors import KsegError, PathError, RequestError, SelectionWarning
from kseg.logdir.cluster_metadata import TopicSettings, read_topic_settings
from kseg.logdir.log_directory import (
    COMPACTED_TOPICS,
    METADATA_PARTITION,
    LogDirectory,
    directory_around,
    is_compacted,
    state_by_name,
)
from kseg.logdir.server_properties import DEFAULTS, ServerProperties
from kseg.quantities import plural
from kseg.segment.files import METADATA_TOPIC, SegmentFile, parse_partition_name, segment_file
from kseg.segment.paths import expand_path
from kseg.stores import trees

SOURCE = f"as {METADATA_PARTITION} has it"
INTERVAL, POLICY = "index.interval.bytes", "cleanup.policy"
_LARGEST_INTERVAL = (1 << 31) - 1


class KnownTopics:
    """Settings from the __cluster_metadata of log directories; each is read once, on first use: it may be large.

    For settings that are missing there, callers guess or use the broker's default. ``server``: the broker's file, the
    fallback for missing settings.
    """

    def __init__(self, server: ServerProperties | None = None) -> None:
        self.server = server
        self._read: dict[str, TopicSettings | None] = {}
        self._around: dict[str, LogDirectory | None] = {}

    def settings(self, log_directory: str) -> TopicSettings | None:
        """Returns the settings of a log directory's newest metadata; None if there are none or they are unreadable."""
        path = os.path.join(os.path.abspath(log_directory), METADATA_PARTITION)
        if path not in self._read:
            self._read[path] = read_topic_settings(path) if trees.isdir(path) else None
        return self._read[path]

    def is_compacted(self, directory: str) -> bool:
        """Whether a partition is compacted, by its topic's policy, the cleaner's checkpoint, or the topic's name."""
        root, name = os.path.split(os.path.abspath(directory))
        if root not in self._around:
            self._around[root] = directory_around(directory)
        around = self._around[root]
        state = around.broker_state(name) if around else state_by_name(name.rpartition("-")[0])
        return bool(state.is_compacted) or state.cleaner_offset is not None

    def setting(self, partition: str, name: str) -> str | None:
        """Returns a setting of a partition's topic, or the cluster's default; None if neither is known."""
        path = os.path.abspath(partition)
        place = parse_partition_name(os.path.basename(path))
        found = self.settings(os.path.dirname(path)) if place is not None else None
        if found is None or place is None or place[0] not in found.ids:
            return None
        return found.setting(place[0], name)

    def interval_bytes(self, partition: str) -> tuple[int | None, str]:
        """Returns index.interval.bytes of a partition's topic, and its source; None if unknown, or not a number that
        Kafka accepts."""
        if (found := _interval(self.setting(partition, INTERVAL))) is not None or self.server is None:
            return found, SOURCE
        return _interval(self.server.setting(INTERVAL)), self.server.source


def _interval(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 10:
        return None
    return int(text) if int(text) <= _LARGEST_INTERVAL else None


_ABANDONED_SUFFIXES = ("-delete", "-stray")
MOVED = "moved or deleted by a broker (-delete, -future, -stray)"
"""Reasons why a partition is left alone."""
NO_SEGMENT = "no segments"
UNKNOWN_TOPIC = f"topic unknown to {METADATA_TOPIC}-0 (--topic names it)"
CLUSTER_METADATA = "the log of the cluster's metadata, which brokers cut by snapshots"
OTHER_TOPIC = "of no topic that --topic names"
_WILDCARDS = frozenset("*?[")
_DEFAULT_POLICY = DEFAULTS[POLICY]
"""The policy if neither the topic nor the cluster sets cleanup.policy (log.cleanup.policy)."""
Warn = Callable[[str], None]
"""Receives a sentence for people."""


class Topics(KnownTopics):
    """The topics that a command selects. ``globs``: the values of --topic. ``takes_unknown``: without --topic and
    metadata all topics are selected, as the command changes nothing.
    """

    def __init__(
        self, globs: tuple[str, ...] = (), takes_unknown: bool = False, server: ServerProperties | None = None
    ) -> None:
        super().__init__(server)
        self._globs, self._takes_unknown = globs, takes_unknown

    def topic_id(self, directory: str, topic: str) -> str | None:
        """Returns the id of a topic; None if it is unknown or the metadata are incomplete."""
        found = self.settings(directory)
        return found.ids.get(topic) if found is not None and found.is_complete else None

    def check(self, directory: str) -> None:
        """Raises KsegError if neither --topic nor metadata select the partitions of a log directory."""
        if self._globs or self._takes_unknown:
            return
        found = self.settings(directory)
        if found is None or not found.is_complete:
            why = "is not there" if found is None else "cannot be read to its end"
            raise KsegError(
                f"{directory}: {METADATA_TOPIC}-0, which has the settings of topics, {why}: name them with --topic"
            )

    def is_selected(self, path: str, directory: str) -> bool:
        """Whether a partition of a log directory is selected; not if its topic was deleted."""
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is None or place[0] == METADATA_TOPIC or name.endswith(_ABANDONED_SUFFIXES):
            return False
        if self._globs:
            return self.is_named(path)
        found = self.settings(directory)
        if found is None:
            return self._takes_unknown
        return place[0] in found.ids or (self._takes_unknown and not found.is_complete)

    def why_left(self, path: str, directory: str) -> str:
        """Returns why a partition of a log directory is not selected, "" if it is."""
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is not None and place[0] == METADATA_TOPIC:
            return CLUSTER_METADATA
        if not self.is_named(path):
            return OTHER_TOPIC
        if name.endswith(_ABANDONED_SUFFIXES):
            return MOVED
        return "" if self.is_selected(path, directory) else UNKNOWN_TOPIC

    def is_named(self, path: str) -> bool:
        """Whether --topic names a partition's topic, or is not given."""
        return not self._globs or is_of_topics(path, self._globs)

    def named(self, directory: str, paths: Iterable[str]) -> list[str]:
        """Returns those partitions of a log directory that --topic names. Raises PathError if it names none."""
        found = [path for path in paths if self.is_named(path)]
        if self._globs and not found:
            raise PathError(f"{directory}: no partition of a topic that --topic names")
        return found

    def warn_if_none(self, directory: str, paths: list[str], warn: Warn) -> None:
        """Warns if --topic selects no partition of a log directory, or only the cluster metadata."""
        if not self._globs:
            return
        named = {os.path.basename(path) for path in paths if self.is_named(path)}
        if not named:
            warn(f"{directory}: holds no partition of a topic that --topic names")
        elif named == {f"{METADATA_TOPIC}-0"}:
            warn(f"{directory}: {METADATA_TOPIC}-0 is left alone: brokers cut it by snapshots")

    def policy(self, path: str) -> str | None:
        """Returns the cleanup.policy of a partition's topic; None if no metadata beside the partition has the topic."""
        found, topic = self._settings_beside(path)
        by_server = None if self.server is None else self.server.setting(POLICY) or _DEFAULT_POLICY
        if found is None or topic not in found.ids:
            return None if topic in COMPACTED_TOPICS else by_server
        return found.setting(topic, POLICY) or by_server or _DEFAULT_POLICY

    def policy_source(self, path: str) -> str:
        """Returns where the cleanup.policy of a partition's topic comes from, in words."""
        found, topic = self._settings_beside(path)
        if found is not None and topic in found.ids and found.setting(topic, POLICY):
            return f"{METADATA_TOPIC}-0"
        return "the broker's file" if self.server is not None and self.server.setting(POLICY) else "Kafka's default"

    def policy_without_compact(self, path: str) -> str | None:
        """Returns the cleanup.policy of a partition's topic if it is known and lacks ``compact``, else None."""
        policy = self.policy(path)
        return None if policy is None or is_compacted(policy) else policy

    def lookup(self, path: str) -> Callable[[str], str | None]:
        """Returns a function that looks up a setting of the partition's topic in the metadata beside it."""
        found, topic = self._settings_beside(path)
        if found is None or topic not in found.ids:
            return lambda _: None
        return lambda name: found.setting(topic, name)

    def _settings_beside(self, path: str) -> tuple[TopicSettings | None, str]:
        """Returns the metadata beside a partition, and the name of its topic. A link counts as the partition."""
        path = os.path.realpath(path)
        found, place = self.settings(os.path.dirname(path)), parse_partition_name(os.path.basename(path))
        return found, place[0] if place is not None else ""


def of_topics(paths: Iterable[str], globs: tuple[str, ...]) -> list[str]:
    """Returns the paths, each log directory replaced by its partitions that ``globs`` name; unchanged without globs.
    Raises PathError."""
    found: list[str] = []
    for path in paths:
        parts = expand_path(path) if globs else [path]
        found += parts if parts == [path] else Topics(globs).named(path, parts)
    return found


def file_of_place(place: str) -> SegmentFile:
    """Returns a segment, for a partition one that stands for all of it."""
    return segment_file(os.path.join(place, "0.log") if trees.isdir(place) else place)


def topic_of_place(place: str) -> str | None:
    """Returns the topic of a partition or segment by its directory's name; None if that is no partition's."""
    return file_of_place(place).topic


def is_of_topics(place: str, globs: Collection[str]) -> bool:
    """Whether a glob matches the topic of a partition or segment."""
    topic = topic_of_place(place)
    return topic is not None and any(fnmatchcase(topic, glob) for glob in globs)


def unknown_topics(places: Iterable[str], globs: Collection[str]) -> tuple[list[str], list[str]]:
    """Returns the names, and the globs with wildcards, that match the topic of no partition or segment."""
    topics = {topic for topic in map(topic_of_place, places) if topic is not None}
    unknown = [glob for glob in globs if not any(fnmatchcase(topic, glob) for topic in topics)]
    names = [each for each in unknown if _WILDCARDS.isdisjoint(each)]
    return names, [each for each in unknown if each not in names]


def check_topics(places: Iterable[str], globs: Collection[str]) -> None:
    """Raises RequestError if a name without wildcards is that of no partition or segment; for a glob that matches none,
    warns of it (SelectionWarning)."""
    names, others = unknown_topics(places, globs)
    if names:
        raise RequestError(f"topics: there is no partition of topic {names[0]!r}")
    for glob in others:
        warnings.warn(f"topics: no topic matches {glob!r}", SelectionWarning, stacklevel=3)


def warn_left_alone(directory: str, left: Mapping[str, int], warn: Warn) -> None:
    """Warns of the partitions of a log directory that are left alone, counted by reason, unless that is expected."""
    for why, count in left.items():
        if why not in (CLUSTER_METADATA, OTHER_TOPIC):
            warn(f"{directory}: {plural(count, 'partition', 'partitions')} left alone: {why}")
