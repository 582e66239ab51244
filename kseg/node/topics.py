"""The selection of partitions by topic."""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from kseg.errors import KsegError, PathError, RequestError, SelectionWarning
from kseg.node.log_directory import ABANDONED_SUFFIXES
from kseg.node.node import Nodes
from kseg.node.paths import expanded
from kseg.quantities import plural
from kseg.segment.files import METADATA_TOPIC, parse_partition_name, topic_of_place
from kseg.segment.paths import live_parts, warn_of_unread

MOVED = "moved or deleted by a broker (-delete, -future, -stray)"
"""Reasons why a partition is left alone."""
NO_SEGMENT = "no segments"
UNKNOWN_TOPIC = f"topic unknown to {METADATA_TOPIC}-0 (--topic names it)"
CLUSTER_METADATA = "the log of the cluster's metadata, which brokers cut by snapshots"
OTHER_TOPIC = "of no topic that --topic names"
_WILDCARDS = frozenset("*?[")
Warn = Callable[[str], None]
"""Receives a sentence for people."""


class Topics:
    """The partitions that a command selects: those that --topic (``globs``) names, else those whose topics the metadata
    of their node have. ``takes_unknown``: without both all are selected, as the command changes nothing."""

    def __init__(self, globs: tuple[str, ...] = (), nodes: Nodes | None = None, takes_unknown: bool = False) -> None:
        self._globs, self._takes_unknown = globs, takes_unknown
        self.nodes = Nodes() if nodes is None else nodes

    def check(self, directory: str) -> None:
        """Raises KsegError if neither --topic nor metadata select the partitions of a log directory."""
        if self._globs or self._takes_unknown:
            return
        node = self.nodes.at(directory)
        if node.topics is None or node.topics.lacking:
            if elsewhere := node.elsewhere():
                raise KsegError(f"{directory}: {elsewhere}; or name topics with --topic")
            why = "is not there" if node.topics is None else "cannot be read to its end"
            raise KsegError(
                f"{directory}: {METADATA_TOPIC}-0, which has the settings of topics, {why}: name them with --topic"
            )

    def why_left(self, path: str, directory: str) -> str:
        """Returns why a partition of a log directory is not selected, "" if it is."""
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is not None and place[0] == METADATA_TOPIC:
            return CLUSTER_METADATA
        if not self.is_named(path):
            return OTHER_TOPIC
        if name.endswith(ABANDONED_SUFFIXES):
            return MOVED
        if place is None:
            return UNKNOWN_TOPIC
        if self._globs:
            return ""
        found = self.nodes.at(directory).topics
        if found is None:
            return "" if self._takes_unknown else UNKNOWN_TOPIC
        is_selected = place[0] in found.ids or (self._takes_unknown and bool(found.lacking))
        return "" if is_selected else UNKNOWN_TOPIC

    def is_named(self, path: str) -> bool:
        """Whether --topic names a partition's topic, or is not given."""
        return not self._globs or is_of_topics(path, self._globs)

    def named(self, directory: str, paths: Iterable[str]) -> list[str]:
        """Returns those partitions of a log directory that --topic names. Raises PathError if it names none in any log
        directory of the PATHs."""
        found = [path for path in paths if self.is_named(path)]
        if self._globs and not found and not self._is_elsewhere:
            raise PathError(f"{directory}: no partition of a topic that --topic names")
        return found

    def parts(self, path: str) -> tuple[list[str], list[str]]:
        """Returns those of `live_parts` that --topic names. Raises PathError."""
        parts, moved = live_parts(path)
        if parts != [path]:
            parts = self.named(path, parts)
        return parts, [part for part in moved if self.is_named(part)]

    def warn_if_none(self, directory: str, paths: list[str], warn: Warn) -> None:
        """Warns if --topic selects no partition of a log directory, or only the cluster metadata."""
        if not self._globs:
            return
        named = {os.path.basename(path) for path in paths if self.is_named(path)}
        if not named and not self._is_elsewhere:
            warn(f"{directory}: holds no partition of a topic that --topic names")
        elif named == {f"{METADATA_TOPIC}-0"}:
            warn(f"{directory}: {METADATA_TOPIC}-0 is left alone: brokers cut it by snapshots")

    @property
    def _is_elsewhere(self) -> bool:
        """Whether any PATH has a partition that --topic names: not each disk of a node, or node of a cluster, has."""
        return any(fnmatchcase(topic, glob) for topic in self.nodes.topics_at_paths if topic for glob in self._globs)


def of_topics(paths: Iterable[str], globs: tuple[str, ...], warn: Warn) -> list[str]:
    """Returns the paths, each log directory replaced by its partitions that ``globs`` name, if there are any.

    ``warn`` is told of those that a broker has moved or deleted, which are left out. Raises PathError.
    """
    found, paths = list[str](), expanded(paths)
    topics = Topics(globs, Nodes(paths))
    for path in paths:
        parts, moved = topics.parts(path) if globs else ([path], [])
        found += parts
        warn_of_unread(moved, paths, warn)
    return found


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
