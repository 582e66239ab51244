"""Lists the objects of remote storage by partition and segment."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kseg.errors import PathError
from kseg.stores.object_urls import open_objects
from kseg.stores.objects import Objects
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.recognition import is_topic, parse_object_name
from kseg.stores.remote.segment import ManifestError, RemoteSegment
from kseg.stores.stored_object import StoredObject


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
    """All objects below ``store``. Raises PathError if they cannot be listed, or none is one of remote storage.

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
        if not partitions:
            raise PathError(
                f"{store.root}: no remote storage: no object is named as Kafka's LocalTieredStorage or Aiven's plugin "
                "do"
            )
        _name_topics(partitions.values())
        self.partitions = sorted(partitions.values(), key=lambda found: (found.topic, found.number, found.topic_id))
        for partition in self.partitions:
            partition.segments.sort(key=lambda found: (found.start_offset, found.segment_id))


def open_storage(path: str, keys: PrivateKeys) -> RemoteStorage:
    """Raises PathError if there is no remote storage at ``path``."""
    return RemoteStorage(open_objects(path), keys)


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
        with suppress(ManifestError, PathError):
            if segment.metadata is not None and segment.metadata.topic_id == partition.topic_id:
                yield segment.metadata.topic
