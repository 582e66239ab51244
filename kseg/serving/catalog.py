"""The topics that are served: which partitions lie at the PATHs, and their ids. Only names are read at the start."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from threading import Lock

from kseg.errors import PathError
from kseg.formats.schema import uuid_text
from kseg.node.log_directory import topic_id_at
from kseg.node.log_starts import LogStarts
from kseg.node.node import is_reserved_id
from kseg.node.paths import expanded
from kseg.node.topics import is_of_topics
from kseg.segment.files import METADATA_TOPIC, METADATA_TOPIC_ID, OFFSETS_TOPIC, file_of_place
from kseg.segment.paths import live_parts, roots_of, warn_of_unread
from kseg.serving.logs import LeftOut, SegmentBytes, ServedLog
from kseg.stores.place import Place

MAX_PARTITION = 99_999
"""The highest number of a partition: clients are told of all below it."""

Tell = Callable[[ServedLog, LeftOut | str], None]


class ServedTopic:
    """A topic with its partitions by number; some may be missing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logs: dict[int, ServedLog] = {}

    @property
    def partitions(self) -> int:
        """The number of partitions that clients are told of: they count from 0."""
        return max(self.logs) + 1

    def stored_id(self) -> str | None:
        """Returns the id in the first partition.metadata that has one."""
        places = (place for number in sorted(self.logs) for place in self.logs[number].places)
        return next(filter(None, map(topic_id_at, places)), None)


def made_id(name: str) -> str:
    """Returns a topic id for a name: the same each time, and none that Kafka reserves."""
    found = uuid_text(sha256(os.fsencode(name)).digest()[:16])
    return found if not is_reserved_id(found) else made_id(name + " ")


class Catalog:
    """The partitions at PATHs, of topics that a glob names if there are any. ``warn`` gets sentences, ``tell`` what is
    found out about a partition later. ``is_deep``: see `ServedLog`.

    Raises PathError for a PATH that cannot be read, for none, and for the same partition in two places.
    """

    def __init__(
        self, paths: Sequence[str], globs: Sequence[str], warn: Callable[[str], None], tell: Tell, is_deep: bool = False
    ) -> None:
        self.topics: dict[str, ServedTopic] = {}
        self.offsets_logs: list[ServedLog] = []
        """The partitions of __consumer_offsets, also if no glob names it."""
        self.segments = SegmentBytes()
        self.places: list[str] = []
        """The log directories and partitions at the PATHs."""
        self._ids: dict[str, str] = {}
        self._by_id: dict[str, ServedTopic] = {}
        self._lock = Lock()
        self._log_starts = LogStarts(paths, warn)
        found = dict[tuple[str, int], list[str]]()
        for part in self._parts(paths, warn):
            place = _partition_of(part)
            if place is None or place[1] > MAX_PARTITION:
                warn(f"{part}: not served: " + ("no partition" if place is None else "no partition has such a number"))
            elif not any(_is_same(part, other) for other in found.setdefault(place, [])):
                found[place].append(part)
        for (topic, number), parts in sorted(found.items()):
            places = _joined(topic, number, parts)
            log = ServedLog(f"{topic}-{number}", places, self.segments, self._log_starts, tell, is_deep)
            if topic == OFFSETS_TOPIC:
                self.offsets_logs.append(log)
            if not globs or is_of_topics(parts[0], globs):
                self.topics.setdefault(topic, ServedTopic(topic)).logs[number] = log
        if not self.topics:
            raise PathError(f"{', '.join(paths)}: no partition" + (" of a topic that --topic names" if globs else ""))

    def _parts(self, paths: Sequence[str], warn: Callable[[str], None]) -> Iterator[str]:
        paths = expanded(paths)
        for path in paths:
            for root in roots_of(path):
                parts, moved = live_parts(root)
                warn_of_unread(moved, paths, warn)
                self.places.append(root)
                yield from parts

    @property
    def partition_count(self) -> int:
        return sum(len(topic.logs) for topic in self.topics.values())

    def log(self, topic: str, number: int) -> ServedLog | None:
        """Returns a partition; None if it is not there."""
        found = self.topics.get(topic)
        return None if found is None else found.logs.get(number)

    def id_of(self, topic: ServedTopic) -> str:
        """Returns the id in a partition.metadata, else one made from the name: also for a copy, whose id is that of
        another topic, as clients tell topics by their ids."""
        with self._lock:
            if topic.name not in self._ids:
                found = METADATA_TOPIC_ID if topic.name == METADATA_TOPIC else topic.stored_id()
                is_reserved = found is not None and topic.name != METADATA_TOPIC and is_reserved_id(found)
                if found is None or is_reserved or found in self._by_id:
                    found = made_id(topic.name)
                self._ids[topic.name], self._by_id[found] = found, topic
            return self._ids[topic.name]

    def is_known(self, topic_id: str) -> bool:
        """Whether clients were told of an id: then no file is read to find its topic."""
        return topic_id in self._by_id

    def by_id(self, topic_id: str) -> ServedTopic | None:
        """Returns the topic of an id. One that no client was told yet may be that of an earlier run: all are read."""
        if topic_id not in self._by_id and len(self._ids) < len(self.topics):
            for topic in self.topics.values():
                self.id_of(topic)
        return self._by_id.get(topic_id)


def _partition_of(part: str) -> tuple[str, int] | None:
    """Returns the topic and number of a partition directory, or of a segment in one."""
    file = file_of_place(part)
    return None if file.topic is None or file.partition is None else (file.topic, file.partition)


def _is_same(part: str, other: str) -> bool:
    """Whether two places are one."""
    return part == other or (Place(part).tree is None and Place(other).tree is None and Place(part).is_same_file(other))


def _joined(topic: str, number: int, parts: Iterable[str]) -> list[str]:
    """Returns the places of a partition: one, segments of one directory, or remote storage with a local directory,
    whose segments are the later ones. Raises PathError for other places."""
    from kseg.node.remote_partitions import RemoteTree  # few logs are tiered

    found = list(parts)
    remote = [part for part in found if isinstance(Place(part).tree, RemoteTree)]
    local = [part for part in found if part not in remote]
    is_one_directory = not any(Place(part).is_dir() for part in local) and len({*map(os.path.dirname, local)}) == 1
    if len(remote) > 1 or (len(local) > 1 and not is_one_directory):
        raise PathError(f"{topic}-{number} is in two places: {found[0]} and {found[1]}")
    if remote and local:
        ids = {topic_id_at(remote[0]), topic_id_at(local[0])} - {None}
        if len(ids) > 1:
            raise PathError(f"{topic}-{number} is that of two topics: {found[0]} and {found[1]}")
    return remote + local
