"""Looks up the topic ids and log end offsets of the partitions in log directories."""

import os

from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.segment.files import list_partitions, list_segments, parse_partition_name
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import offset_extent
from kseg.sidefiles.partition_metadata import PARTITION_METADATA, PartitionMetadata, read_partition_metadata
from kseg.stores.regular_files import open_regular
from kseg.stores.source import open_source

Partition = tuple[str, int]

_METADATA_BYTES = 4096


class Partitions:
    """Partitions by topic and number, without renamed ones (-delete, -future, -stray)."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._paths: dict[Partition, str] = {}
        self._ends: dict[Partition, int | None] = {}
        self._topic_ids: dict[Partition, str | None] = {}

    def add(self, directory: str) -> None:
        """Adds the partitions of a log directory. Raises PathError if it cannot be listed."""
        for path in list_partitions(directory):
            name = os.path.basename(path)
            place = parse_partition_name(name)
            if place is not None and name == f"{place[0]}-{place[1]}":
                self._paths.setdefault(place, path)

    def log_end_offset(self, topic: str, partition: int) -> int | None:
        """Returns the offset after the last intact batch; None if the partition is unknown or has no segment.

        Raises PathError if its last segment cannot be read.
        """
        place = topic, partition
        if place not in self._ends:
            self._ends[place] = None  # so that a read error is reported only once
            if place in self._paths:
                self._ends[place] = _log_end_offset(self._paths[place], self._scratch)
        return self._ends[place]

    def topic_id(self, topic: str, partition: int) -> str | None:
        """Returns the id in partition.metadata; None if the partition is unknown or has no valid file."""
        place = topic, partition
        if place in self._paths and place not in self._topic_ids:
            self._topic_ids[place] = topic_id_at(self._paths[place])
        return self._topic_ids.get(place)

    def topic_ids(self, topic: str) -> dict[int, str]:
        """Returns the ids in the valid partition.metadata files of a topic, by partition number."""
        numbers = [number for name, number in self._paths if name == topic]
        found = {number: self.topic_id(topic, number) for number in numbers}
        return {number: topic_id for number, topic_id in found.items() if topic_id is not None}


def topic_id_at(path: str) -> str | None:
    """Returns the topic id in a partition directory's partition.metadata; None if it is missing or not valid."""
    try:
        with open_regular(os.path.join(path, PARTITION_METADATA)) as file:
            items = list(read_partition_metadata(file.read(_METADATA_BYTES)))
    except OSError:
        return None
    return next((item.topic_id for item in items if isinstance(item, PartitionMetadata)), None)


def _log_end_offset(path: str, scratch: Scratch) -> int | None:
    logs = [file for file in list_segments(path) if file.kind == LOG and file.base_offset is not None]
    if not logs:
        return None
    last = logs[-1]
    with open_source(last.path) as source:
        extent = offset_extent(SegmentReader(source, base_offset=last.base_offset or 0, scratch=scratch), last)
    return last.base_offset if extent is None else extent[1] + 1
