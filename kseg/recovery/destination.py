"""The cluster or topic that recovered partitions are for: their names, topic ids and checkpoint entries."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kseg.changes.journal import TopicPartition
from kseg.errors import PathError, errors_at
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.logdir.coordinators import Partitions
from kseg.logdir.topics import KnownTopics
from kseg.recovery.workspace import BrokerRefusesError, Workspace
from kseg.segment.files import METADATA_TOPIC, parse_partition_name
from kseg.sidefiles.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    build_offset_checkpoint,
    offsets_of,
    read_offset_checkpoint,
    set_log_start,
)
from kseg.sidefiles.text_files import (
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    PartitionMetadata,
    build_partition_metadata,
    read_meta_properties,
    topic_id_in,
)
from kseg.stores import trees
from kseg.stores.regular_files import open_regular, read_regular

# Repairs partition.metadata: without it a KRaft broker renames the log to -stray, and a malformed one stops any
# broker.
#
# Sources: PartitionMetadataFile, LogManager.isStrayReplica, UnifiedLog.initializeTopicId of Kafka 4.3.1.

_MAX_BYTES = 1 << 16


class TopicIds:
    """The topic ids of a log directory, by topic. The id ``given`` by the user comes first, then that of the cluster
    metadata (``by_metadata``), then that of other partitions of the topic."""

    def __init__(
        self,
        root: str,
        given: Callable[[str], str | None] = lambda _topic: None,
        by_metadata: Callable[[str], str | None] = lambda _topic: None,
    ) -> None:
        self.given = given
        self._by_metadata = by_metadata
        self._root = root

    @cached_property
    def is_kraft(self) -> bool:
        """Whether a KRaft node has written the log directory; then each partition has the file."""
        with suppress(OSError):  # no log directory, or none with readable properties
            with open_regular(os.path.join(self._root, META_PROPERTIES)) as stream:
                items = read_meta_properties(stream.read(_MAX_BYTES))
            if any(isinstance(item, MetaProperties) and item.version == 1 for item in items):
                return True
        return trees.isdir(os.path.join(self._root, f"{METADATA_TOPIC}-0"))

    @cached_property
    def _partitions(self) -> Partitions:
        partitions = Partitions(Scratch())
        partitions.add(self._root)
        return partitions

    def find(self, topic: str) -> tuple[str, str] | None:
        """Returns an id and its source; None if no partition has one, or if they disagree."""
        if (given := self.given(topic)) is not None:
            return given, "as it is given"
        if (known := self._by_metadata(topic)) is not None:
            return known, f"as in {METADATA_TOPIC}-0"
        found = self._partitions.topic_ids(topic)
        ids = set(found.values())
        return (ids.pop(), f"as in {topic}-{min(found)}") if len(ids) == 1 else None


def repair_topic_id(workspace: Workspace, ids: TopicIds, new_name: str = "") -> str:
    """Writes the file if it is missing, malformed or not the given id. Returns the remaining problem, "" for none.

    ``new_name``: that of the directory afterwards, "" if it stays. Then the id is that of a topic of this name; one of
    another topic is removed. Raises BrokerRefusesError if the file cannot be read and no id is known.
    """
    old_name = os.path.basename(os.path.abspath(workspace.directory))
    name = new_name or old_name
    partition = parse_partition_name(name)
    if partition is None or name != f"{partition[0]}-{partition[1]}" or partition[0] == METADATA_TOPIC:
        return ""
    if new_name:
        old = parse_partition_name(old_name)
        if (found := ids.find(partition[0])) is not None:
            _write_id(workspace, *found)
        elif old is None or old[0] != partition[0]:
            workspace.delete(PARTITION_METADATA, f"is the id of another topic than {partition[0]}")
        return ""
    has_file = PARTITION_METADATA in workspace
    current = topic_id_in(workspace.read_range(PARTITION_METADATA, 0, _MAX_BYTES)) if has_file else None
    given = ids.given(partition[0])
    if current is not None and given in (None, current):
        return ""
    is_needed = has_file or (ids.is_kraft and any(workspace.size(log) for log in workspace.names(LOG)))
    if not is_needed and given is None:
        return ""
    found = ids.find(partition[0])
    if found is not None:
        _write_id(workspace, *found)
        return ""
    if has_file:
        raise BrokerRefusesError(
            f"{workspace.directory}/{PARTITION_METADATA}: cannot be read: a broker does not start with it; "
            "--topic-id UUID writes a new one"
        )
    return (
        f"has no {PARTITION_METADATA}, without which a broker begins an empty log in its place; "
        "--topic-id UUID writes one"
    )


def _write_id(workspace: Workspace, topic_id: str, source: str) -> None:
    content = build_partition_metadata(PartitionMetadata(0, topic_id))
    workspace.write(PARTITION_METADATA, [content], f"the id of the topic, {source}")


class LogBounds(NamedTuple):
    """The offsets of a partition's first segment, of the log's start, and of its end."""

    first_base: int
    log_start: int
    end: int


@dataclass(frozen=True)
class Destination:
    """``name``: the new name of the topic, or for one partition TOPIC-N; ``new_cluster``: log directory of a broker;
    ``topic_id``: the id given by the user.
    """

    name: str | None = None
    new_cluster: str | None = None
    topic_id: str | None = None
    _topics: KnownTopics = field(default_factory=KnownTopics)

    @property
    def is_other(self) -> bool:
        return self.name is not None or self.new_cluster is not None

    def rename(self, topic: str, partition: int, is_single: bool) -> TopicPartition:
        """Returns the new topic and number. ``is_single``: no other partition is recovered in the run."""
        if self.name is None:
            return topic, partition
        found = re.fullmatch(r"(.+)-(0|[1-9][0-9]{0,8})", self.name) if is_single else None
        return (found[1], int(found[2])) if found else (self.name, partition)

    def given_id(self, topic: str) -> str | None:
        """Returns the id that a topic must get, None for any. Raises PathError."""
        if self.topic_id is not None or self.new_cluster is None:
            return self.topic_id
        settings = self._topics.settings(self.new_cluster)
        if settings is None:
            raise PathError(f"{self.new_cluster}: holds no readable cluster metadata: give --topic-id")
        if topic not in settings.ids:
            raise PathError(f"{self.new_cluster}: the cluster has no topic {topic}: create it first")
        return settings.ids[topic]

    def checkpoints(self, bounds: Mapping[TopicPartition, LogBounds]) -> dict[str, bytes]:
        """Returns checkpoint files for the partitions. For a new cluster that is the file of log starts, with the
        entries of its other partitions.

        Raises PathError.
        """
        starts: dict[TopicPartition, int] = {}
        if self.new_cluster is not None:
            starts = _entries(os.path.join(self.new_cluster, LOG_STARTS))
        for partition, found in bounds.items():
            set_log_start(starts, partition, found.log_start, found.first_base)
        files = {LOG_STARTS: build_offset_checkpoint(dict(sorted(starts.items())))}
        if self.new_cluster is None:
            ends = build_offset_checkpoint({partition: found.end for partition, found in sorted(bounds.items())})
            files |= {RECOVERY_POINTS: ends, HIGH_WATERMARKS: ends}
        return files


def _entries(path: str) -> dict[TopicPartition, int]:
    with errors_at(path), suppress(FileNotFoundError):
        return offsets_of(read_offset_checkpoint(read_regular(path, MAX_ROOT_FILE_BYTES)))
    return {}
