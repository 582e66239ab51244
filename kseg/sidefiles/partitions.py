"""The partitions that lie in log directories, found by topic and number: their topic ids and log end offsets."""

import os

from kseg.formats.rows import Scratch
from kseg.segment.files import list_partitions, list_segments, parse_partition_name
from kseg.segment.reader import SegmentReader
from kseg.segment.regular_files import open_regular
from kseg.segment.seek import offset_extent
from kseg.segment.source import open_source
from kseg.sidefiles.partition_metadata import PartitionMetadata, read_partition_metadata

Partition = tuple[str, int]

_METADATA_BYTES = 4096


class Partitions:
    """Partitions by topic and number. Those that a broker has renamed (-delete, -future, -stray) are not among them."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._paths: dict[Partition, str] = {}
        self._ends: dict[Partition, int | None] = {}
        self._topic_ids: dict[Partition, str | None] = {}

    def add(self, directory: str) -> None:
        """Adds those of a log directory. Raises PathError where it cannot be listed."""
        for path in list_partitions(directory):
            name = os.path.basename(path)
            place = parse_partition_name(name)
            if place is not None and name == f"{place[0]}-{place[1]}":
                self._paths.setdefault(place, path)

    def log_end_offset(self, topic: str, partition: int) -> int | None:
        """The offset behind the last intact batch; None for a partition that is not here, or has no segment.

        Raises PathError where its last segment cannot be read.
        """
        place = topic, partition
        if place not in self._ends:
            self._ends[place] = None  # what cannot be read is told once
            if place in self._paths:
                self._ends[place] = _log_end_offset(self._paths[place], self._scratch)
        return self._ends[place]

    def topic_id(self, topic: str, partition: int) -> str | None:
        """What partition.metadata says; None for a partition that is not here, or has no such file that is right."""
        place = topic, partition
        if place in self._paths and place not in self._topic_ids:
            self._topic_ids[place] = _topic_id(self._paths[place])
        return self._topic_ids.get(place)

    def topic_ids(self, topic: str) -> dict[int, str]:
        """What partition.metadata says in each partition of a topic whose file is right, by number."""
        numbers = [number for name, number in self._paths if name == topic]
        found = {number: self.topic_id(topic, number) for number in numbers}
        return {number: topic_id for number, topic_id in found.items() if topic_id is not None}


def _topic_id(path: str) -> str | None:
    try:
        with open_regular(os.path.join(path, "partition.metadata")) as file:
            items = list(read_partition_metadata(file.read(_METADATA_BYTES)))
    except OSError:
        return None
    return next((item.topic_id for item in items if isinstance(item, PartitionMetadata)), None)


def _log_end_offset(path: str, scratch: Scratch) -> int | None:
    logs = [file for file in list_segments(path) if file.kind == ".log" and file.base_offset is not None]
    if not logs:
        return None
    last = logs[-1]
    with open_source(last.path) as source:
        extent = offset_extent(SegmentReader(source, base_offset=last.base_offset or 0, scratch=scratch), last)
    return last.base_offset if extent is None else extent[1] + 1
