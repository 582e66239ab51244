"""Topic settings of a log directory: the selection of its partitions, and their index.interval.bytes."""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import NamedTuple

from kseg.errors import KsegError, PathError, RequestError, SelectionWarning, errors_at
from kseg.formats.message_set import MIN_SIZE
from kseg.formats.suffixes import INDEX, LOG
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE
from kseg.kernel.layout.rows import be32
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
from kseg.segment.seek import OFFSET_ENTRY
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES
from kseg.stores import trees

SOURCE = f"as {METADATA_PARTITION} has it"
INTERVAL, POLICY = "index.interval.bytes", "cleanup.policy"
_LARGEST_INTERVAL = (1 << 31) - 1


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


class Topics:
    """The topics that a command selects, with their settings from the __cluster_metadata of log directories; each is
    read once, on first use: it may be large.

    For settings that are missing there, callers guess or use the broker's default. ``globs``: the values of --topic.
    ``takes_unknown``: without --topic and metadata all topics are selected, as the command changes nothing.
    ``server``: the broker's file, the fallback for missing settings.
    """

    def __init__(
        self, globs: tuple[str, ...] = (), takes_unknown: bool = False, server: ServerProperties | None = None
    ) -> None:
        self.server = server
        self._globs, self._takes_unknown = globs, takes_unknown
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

    def interval_bytes(self, partition: str) -> tuple[int | None, str]:
        """Returns index.interval.bytes of a partition's topic, and its source; None if unknown, or not a number that
        Kafka accepts."""
        found = _interval(self.lookup(partition, follows_links=False)(INTERVAL))
        if found is not None or self.server is None:
            return found, SOURCE
        return _interval(self.server.setting(INTERVAL)), self.server.source

    def topic_id(self, directory: str, topic: str) -> str | None:
        """Returns the id of a topic; None if it is unknown or the metadata are incomplete."""
        found = self.settings(directory)
        return found.ids.get(topic) if found is not None and not found.lacking else None

    def check(self, directory: str) -> None:
        """Raises KsegError if neither --topic nor metadata select the partitions of a log directory."""
        if self._globs or self._takes_unknown:
            return
        found = self.settings(directory)
        if found is None or found.lacking:
            why = "is not there" if found is None else "cannot be read to its end"
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
        if name.endswith(_ABANDONED_SUFFIXES):
            return MOVED
        if place is None:
            return UNKNOWN_TOPIC
        if self._globs:
            return ""
        found = self.settings(directory)
        if found is None:
            return "" if self._takes_unknown else UNKNOWN_TOPIC
        is_selected = place[0] in found.ids or (self._takes_unknown and bool(found.lacking))
        return "" if is_selected else UNKNOWN_TOPIC

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

    def policy_without_compact(self, path: str) -> tuple[str, str] | None:
        """Returns the cleanup.policy of a partition's topic if it is known and lacks ``compact``, else None; and where
        it comes from, in words. It is known if the metadata beside the partition have the topic, or by the broker's
        file."""
        found, topic = self._settings_beside(path)
        is_in_metadata = found is not None and topic in found.ids
        if not is_in_metadata and (self.server is None or topic in COMPACTED_TOPICS):
            return None
        if found is not None and is_in_metadata and (own := found.setting(topic, POLICY)):
            policy, source = own, METADATA_PARTITION
        elif self.server is not None and (of_broker := self.server.setting(POLICY)):
            policy, source = of_broker, "the broker's file"
        else:
            policy, source = _DEFAULT_POLICY, "Kafka's default"
        return None if is_compacted(policy) else (policy, source)

    def lookup(self, path: str, follows_links: bool = True) -> Callable[[str], str | None]:
        """Returns a function that looks up a setting of the partition's topic, or the cluster's default, in the
        metadata beside it; None if neither is known. ``follows_links``: a link counts as the partition."""
        found, topic = self._settings_beside(path, follows_links)
        if found is None or topic not in found.ids:
            return lambda _: None
        return lambda name: found.setting(topic, name)

    def _settings_beside(self, path: str, follows_links: bool = True) -> tuple[TopicSettings | None, str]:
        """Returns the metadata beside a partition, and the name of its topic."""
        root, name = os.path.split(os.path.realpath(path) if follows_links else os.path.abspath(path))
        place = parse_partition_name(name)
        return self.settings(root), place[0] if place is not None else ""


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


# Chooses index.interval.bytes of partitions: an option, else the topic's setting, else the interval of the indexes.
#
# A broker adds an index entry for a batch that begins more than this number of bytes after the previously indexed
# batch. The interval is therefore below each distance between two entries, and at least the distance to the batch
# before the second one, unless the broker was restarted in between or several batches were appended at once.

SMALL_INTERVAL_BYTES = 1024
"""The interval that is assumed if it fits and Kafka's default does not."""

MAX_INDEXES = 8
MAX_ENTRIES = 128
"""Largest number of indexes that are used, and of entries read from each."""
MIN_ENTRIES = 8
"""Entries that must agree on an interval above the default."""
_MAX_DISTANCE_BYTES = 4 << 20
"""An index with entries this far apart is not used."""


class Interval(NamedTuple):
    """``size`` in bytes; ``indexes``: the number of indexes it was inferred from, 0 for Kafka's default, None if it was
    given, or known from ``source``."""

    size: int
    indexes: int | None
    source: str = ""


class FilesOnDisk:
    """The regular files of a directory by name; ``others``: the names of directories and the like.

    Raises PathError if the directory cannot be listed or has symbolic links.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._sizes: dict[str, int] = {}
        self.statuses: dict[str, os.stat_result] = {}
        self.others: set[str] = set()
        with errors_at(directory), trees.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise PathError(f"{entry.path}: is a symbolic link, which kseg does not change")
                if entry.is_file(follow_symlinks=False):
                    self.statuses[entry.name] = status = entry.stat(follow_symlinks=False)
                    self._sizes[entry.name] = status.st_size
                else:
                    self.others.add(entry.name)

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def names(self, suffix: str = "") -> list[str]:
        """Names with a suffix, sorted as strings."""
        return sorted(name for name in self._sizes if name.endswith(suffix))

    def size(self, name: str) -> int:
        return self._sizes[name]

    def read_range(self, name: str, position: int, length: int) -> bytes:
        """Returns bytes of a file; fewer at its end. Raises KsegError."""
        path = os.path.join(self.directory, name)
        with errors_at(path), trees.open_regular(path) as stream:
            stream.seek(position)
            return stream.read(length)

    def is_original(self, name: str) -> bool:
        """Whether it is a real file, not new content."""
        return True


def interval_of(files: FilesOnDisk, given_bytes: int | None = None, source: str = "") -> Interval:
    """Returns the given interval, known from ``source``; else 4096 if the partition's indexes allow it, or the roundest
    number that fits them."""
    if given_bytes is not None:
        return Interval(given_bytes, None, source)
    found = list(islice(filter(None, (_distances(files, name) for name in files.names(INDEX))), MAX_INDEXES))
    if not found:
        return Interval(DEFAULT_INTERVAL_BYTES, 0)
    return Interval(_roundest([one for of_index in found for one in of_index]), len(found))


def _roundest(distances: list[tuple[int, int]]) -> int:
    """Returns the interval in bytes: the roundest number that fits these results of `_distances`.

    An interval above the default is believed only if many entries agree: restarts of a broker, appends of several
    batches and followers leave longer distances, too."""
    below = min(to_entry for to_entry, _ in distances)
    least = max(to_batch_before for _, to_batch_before in distances)
    is_larger = DEFAULT_INTERVAL_BYTES < least < below and len(distances) >= MIN_ENTRIES
    if below > DEFAULT_INTERVAL_BYTES and not is_larger:
        return DEFAULT_INTERVAL_BYTES
    if least >= below:
        least = 0
    if least <= SMALL_INTERVAL_BYTES < below:
        return SMALL_INTERVAL_BYTES
    for base in (2, 10):
        fitting = [base**k for k in range(31) if least <= base**k < below]
        if fitting:
            return fitting[0] if least else fitting[-1]
    return least


def _distances(files: FilesOnDisk, name: str) -> list[tuple[int, int]]:
    """Returns distances in bytes from the batch of each of the first entries of an index: to that of the next entry,
    and to the batch before that one; none if the index does not match its .log."""
    log = name.removesuffix(INDEX) + LOG
    if log not in files or not files.is_original(log):
        return []
    found, last = [], 0
    data = files.read_range(name, 0, MAX_ENTRIES * OFFSET_ENTRY.size)
    entries = OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size])
    for _, position in takewhile(any, entries):  # up to the preallocated zeros
        if not last < position < min(files.size(log), last + _MAX_DISTANCE_BYTES):
            return []
        data = files.read_range(log, last, position - last)
        at = before = 0
        while at < len(data):
            size = be32(data, at + ENTRY_SIZE) if len(data) - at >= ENTRY_OVERHEAD else 0
            if size < MIN_SIZE:
                return []
            before, at = at, at + ENTRY_OVERHEAD + size
        if at != len(data):
            return []
        found.append((len(data), before))
        last = position
    return found


class TopicIntervals:
    """Chooses the intervals of partitions, and reports those that no option gives: each but the default once as a
    warning, all of them as details. ``given_bytes``: the option, None if it is not given."""

    def __init__(self, given_bytes: int | None, topics: Topics, warn: Warn, detail: Warn) -> None:
        self._given_bytes, self._topics, self._warn, self._detail = given_bytes, topics, warn, detail
        self._reported: set[int] = set()

    def report(self, directory: str, interval: Interval | None) -> None:
        if interval is None or (interval.indexes is None and not interval.source):
            return
        source = f"as {interval.indexes} of its indexes show it" if interval.indexes else "which is Kafka's default"
        source = interval.source or source
        line = f"{directory}: index.interval.bytes {interval.size}, {source}; --index-interval-bytes sets it"
        is_expected = interval.size in self._reported or interval.size == DEFAULT_INTERVAL_BYTES
        (self._detail if is_expected else self._warn)(line)
        self._reported.add(interval.size)

    def of(self, directory: str) -> int:
        """Returns the interval of a partition, and reports it. Raises KsegError if its files cannot be read."""
        if self._given_bytes is not None:
            return self._given_bytes
        interval = interval_of(FilesOnDisk(directory), *self._topics.interval_bytes(directory))
        self.report(directory, interval)
        return interval.size
