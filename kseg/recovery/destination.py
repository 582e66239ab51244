"""The cluster or topic that recovered partitions are for: their names, topic ids and checkpoint entries."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.changes.root_files import TopicPartition
from kseg.errors import PathError
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.logdir.known_topics import KnownTopics
from kseg.sidefiles.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
    build_offset_checkpoint,
    read_offset_checkpoint,
)
from kseg.stores.regular_files import read_regular


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
            starts.pop(partition, None)
            if found.log_start > found.first_base:
                starts[partition] = found.log_start
        files = {LOG_STARTS: _checkpoint(starts)}
        if self.new_cluster is None:
            ends = _checkpoint({partition: found.end for partition, found in bounds.items()})
            files |= {RECOVERY_POINTS: ends, HIGH_WATERMARKS: ends}
        return files


def _checkpoint(entries: Mapping[TopicPartition, int]) -> bytes:
    return build_offset_checkpoint(
        OffsetCheckpoint(*partition, offset) for partition, offset in sorted(entries.items())
    )


def _entries(path: str) -> dict[TopicPartition, int]:
    try:
        items = read_offset_checkpoint(read_regular(path, MAX_ROOT_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    return {(item.topic, item.partition): item.offset for item in items if isinstance(item, OffsetCheckpoint)}
