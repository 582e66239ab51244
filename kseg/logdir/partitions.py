"""Looks up the topic ids, log start and log end offsets of the partitions in log directories."""

import os
from contextlib import suppress

from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.segment.files import list_partitions, list_segments, parse_partition_name
from kseg.segment.reader import SegmentReader
from kseg.segment.seek import offset_extent
from kseg.sidefiles.checkpoints import LOG_STARTS, OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.lines import MAX_TEXT_BYTES
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
        self._extents: dict[Partition, tuple[int, int] | None] = {}
        self._log_starts: dict[str, dict[Partition, int]] = {}
        self._topic_ids: dict[Partition, str | None] = {}

    def add(self, directory: str) -> None:
        """Adds the partitions of a log directory. Raises PathError if it cannot be listed."""
        for path in list_partitions(directory):
            name = os.path.basename(path)
            place = parse_partition_name(name)
            if place is not None and name == f"{place[0]}-{place[1]}":
                self._paths.setdefault(place, path)

    def extent(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Returns the log start offset and the offset after the last intact batch; None if the partition is unknown or
        has no segment.

        Raises PathError if its last segment cannot be read.
        """
        place = topic, partition
        if place not in self._extents:
            self._extents[place] = None  # so that a read error is reported only once
            if place in self._paths and (found := _extent(self._paths[place], self._scratch)) is not None:
                start = max(found[0], self._log_starts_in(os.path.dirname(self._paths[place])).get(place, 0))
                self._extents[place] = start, found[1]
        return self._extents[place]

    def _log_starts_in(self, directory: str) -> dict[Partition, int]:
        """Returns the checkpoint of log start offsets; nothing if there is none or it cannot be read."""
        if directory not in self._log_starts:
            items: list[object] = []
            with suppress(OSError), open_regular(os.path.join(directory, LOG_STARTS)) as file:
                items += read_offset_checkpoint(file.read(MAX_TEXT_BYTES))
            found = [item for item in items if isinstance(item, OffsetCheckpoint)]
            self._log_starts[directory] = {(item.topic, item.partition): item.offset for item in found}
        return self._log_starts[directory]

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


def _extent(path: str, scratch: Scratch) -> tuple[int, int] | None:
    logs = [file for file in list_segments(path) if file.kind == LOG and file.base_offset is not None]
    if not logs:
        return None
    last = logs[-1]
    with open_source(last.path) as source:
        extent = offset_extent(SegmentReader(source, base_offset=last.base_offset or 0, scratch=scratch), last)
    return logs[0].base_offset or 0, (last.base_offset or 0) if extent is None else extent[1] + 1
