"""Lists the objects of remote storage by partition and segment."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kseg.errors import KsegError, PathError
from kseg.stores import trees
from kseg.stores.objects import LocalObjects, Objects, open_objects
from kseg.stores.remote.chunk_index import ManifestError
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.names import is_partition_name, is_topic, may_hold_segments, parse_object_name
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.stored_object import StoredObject, is_url, shown

if TYPE_CHECKING:
    from kseg.stores.object_urls import UrlObjects

_LOG_DIRECTORY_FILES = frozenset({"meta.properties", "leader-epoch-checkpoint", "partition.metadata"})
_MIN_NAME = 43
"""Characters of a start offset, a dash and an id."""
_MAX_FOLDERS = 500
"""Limit of folders that are listed to recognise remote storage."""
_MAX_REQUESTS = 32
"""The same at a URL."""


@dataclass(slots=True)
class RemotePartition:
    """The segments of a partition, by start offset; ``folder``: the common start of its objects' names."""

    topic: str
    topic_id: str
    number: int
    folder: str
    segments: list[RemoteSegment] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that a broker gives the partition's directory."""
        return f"{self.topic}-{self.number}"


class RemoteStorage:
    """All objects below ``store``. Raises PathError if they cannot be listed.

    ``others``: objects with other names than those of remote storage.
    """

    def __init__(self, store: Objects, keys: PrivateKeys) -> None:
        self.store = store
        self.others: list[StoredObject] = []
        partitions: dict[tuple[str, str, int], RemotePartition] = {}
        segments: dict[tuple[str, int, str], RemoteSegment] = {}
        for item in store.list():
            name = parse_object_name(item.name)
            if name is None:
                self.others.append(item)
                continue
            key = (name.layout, name.topic_id, name.partition)
            partition = partitions.get(key)
            if partition is None:
                partition = RemotePartition(name.topic, name.topic_id, name.partition, name.folder)
                partitions[key] = partition
            segment = segments.get((name.topic_id, name.partition, name.segment_id))
            if segment is None or segment.start_offset != name.start_offset:
                segment = RemoteSegment(store, keys, name.layout, name.start_offset, name.segment_id, {})
                segments[name.topic_id, name.partition, name.segment_id] = segment
                partition.segments.append(segment)
            # After a change of key.prefix a segment's objects may have different ones.
            segment.found.setdefault(name.suffix, item)
        _name_topics(partitions.values())
        self.partitions = sorted(partitions.values(), key=lambda found: (found.topic, found.number, found.topic_id))
        for partition in self.partitions:
            partition.segments.sort(key=lambda found: (found.start_offset, found.segment_id))


def open_storage(path: str, keys: PrivateKeys) -> RemoteStorage:
    """Raises PathError if there is no remote storage at ``path``."""
    return storage_in(open_objects(path), keys)


def storage_in(store: Objects, keys: PrivateKeys) -> RemoteStorage:
    """Raises PathError if ``store`` holds no remote storage."""
    storage = RemoteStorage(store, keys)
    if not storage.partitions:
        raise PathError(
            f"{store.root}: no remote storage: no object is named as Kafka's LocalTieredStorage or Aiven's plugin do"
        )
    return storage


def is_remote_storage(path: str) -> bool:
    """Whether a directory or URL holds remote storage, and no log directory; reads as few folders as it can."""
    if not is_url(path):
        return _holds_segments(partial(_local_names, LocalObjects(path)), _MAX_FOLDERS)
    from kseg.stores.object_urls import UrlObjects  # few have URLs

    try:
        return _holds_segments(partial(_stored_names, UrlObjects(path)), _MAX_REQUESTS)
    except KsegError:
        return False  # a file, or nothing that can be listed


def is_mounted_storage(path: str) -> bool:
    """As `is_remote_storage`, but a URL is of a mounted store, which keeps the listings for its readers."""
    if not is_url(path):
        return is_remote_storage(path)
    return _holds_segments(partial(_mounted_names, shown(path)), _MAX_REQUESTS)


def _holds_segments(names_in: Callable[[str], tuple[list[str], list[str]]], most: int) -> bool:
    """Lists at most ``most`` folders. ``names_in`` returns names of objects and folders, or raises OSError."""
    pending, seen = [""], 0
    while pending and seen < most:
        folder, seen = pending.pop(), seen + 1
        try:
            objects, folders = names_in(folder)
        except (OSError, PathError):
            continue
        if not _LOG_DIRECTORY_FILES.isdisjoint(objects):
            return False
        if any(_is_segment_object(f"{folder}/{name}".lstrip("/")) for name in objects):
            return True
        likely = [name for name in folders if may_hold_segments(name) or name.isdigit()]
        unlikely = [name for name in folders if name not in set(likely)]
        for names in (unlikely, likely):
            pending += [f"{folder}/{name}".lstrip("/") for name in sorted(names, reverse=True)[-_MAX_FOLDERS:]]
    return False


def _local_names(store: LocalObjects, folder: str) -> tuple[list[str], list[str]]:
    objects, folders = list[str](), list[str]()
    with os.scandir(store.path(folder)) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else objects).append(entry.name)
    return objects, folders


def _mounted_names(url: str, folder: str) -> tuple[list[str], list[str]]:
    with trees.scandir(f"{url}/{folder}".rstrip("/")) as entries:
        found = [(entry.name, entry.is_dir()) for entry in entries]
    # A request for each partition of a log directory would take too long.
    folders = [
        name for name, is_folder in found if is_folder and (may_hold_segments(name) or not is_partition_name(name))
    ]
    return [name for name, is_folder in found if not is_folder], folders


def _stored_names(store: "UrlObjects", folder: str) -> tuple[list[str], list[str]]:
    objects, folders = store.folder(folder)
    return [os.path.basename(item.name) for item in objects], folders


def _is_segment_object(path: str) -> bool:
    name = os.path.basename(path)
    return len(name) > _MIN_NAME and name[:20].isdigit() and parse_object_name(path) is not None


def _name_topics(partitions: Iterable[RemotePartition]) -> None:
    """Removes key prefixes from the names of topics; a prefix is known from a manifest, which has the topic's name."""
    prefixes: dict[str, None] = {}
    unnamed: list[tuple[RemotePartition, str]] = []
    for partition in partitions:
        whole = partition.folder.removesuffix("-" + partition.topic_id)
        topic = next(_topics_in(partition), None)
        if topic is not None and whole.endswith(topic):
            partition.topic = topic
            prefixes[whole.removesuffix(topic)] = None
        else:
            unnamed.append((partition, whole))
    for partition, whole in unnamed:
        for prefix in sorted(prefixes, key=len, reverse=True):
            if whole.startswith(prefix) and is_topic(whole.removeprefix(prefix)):
                partition.topic = whole.removeprefix(prefix)
                break


def _topics_in(partition: RemotePartition) -> Iterator[str]:
    """Yields the topics that manifests name."""
    for segment in partition.segments:
        try:
            metadata = segment.metadata
        except (ManifestError, PathError):
            continue
        if metadata is not None and metadata.topic_id == partition.topic_id:
            yield metadata.topic
