"""Finds the log start offset of partitions: records below it are deleted, though their bytes may still be there.

Whatever gives out records asks here. The entry on the partition's own disk counts, else that of another disk of its
node, as for a partition that was moved by hand. Names and meaning: LogManager and UnifiedLog of Kafka 4.4.0.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kseg.errors import KsegError
from kseg.formats.suffixes import LOG
from kseg.segment.files import LOG_STARTS, SegmentFile, is_renamed_directory, list_segments, parse_partition_name
from kseg.segment.reader import open_segment
from kseg.stores.place import Place
from kseg.stores.stored_object import is_url

if TYPE_CHECKING:
    from kseg.node.log_directory import OffsetsByPartition
    from kseg.node.node import Nodes

_EMPTY_CHECKPOINT = "0\n0\n"


class LogStarts:
    """The log start offsets of the partitions at PATHs. Each checkpoint is read once.

    ``warn`` is told of checkpoints that cannot be read, and of entries that are disregarded.
    """

    def __init__(self, paths: Iterable[str], warn: Callable[[str], None] | None = None) -> None:
        self._paths, self._warn = paths, warn
        self._read: dict[str, OffsetsByPartition] = {}

    def of_file(self, file: SegmentFile) -> int:
        """Returns that of the partition of a segment; 0 for files that lie in none."""
        return 0 if file.topic is None else self.of(Place(file.path).parent)

    def of(self, directory: str) -> int:
        """Returns that of a partition directory, 0 if no checkpoint has it, or if it is beyond the end of the log.

        A -delete, -future or -stray directory has none: the entry is that of another directory.
        """
        directory = Place(directory).absolute
        name, disk = os.path.basename(directory), directory.parent
        place = parse_partition_name(name)
        if place is None or is_renamed_directory(directory):
            return 0
        found = self._at(disk).get(place)
        if found is None:
            found = self._moved_from(disk, name, place)
        if not found or not _is_beyond_end(directory, found):
            return found or 0
        if self._warn is not None:
            self._warn(f"{directory}: its log start offset {found} is beyond its end, and disregarded")
        return 0

    def _at(self, disk: str) -> "OffsetsByPartition":
        if disk not in self._read:
            path = Place(disk) / LOG_STARTS
            self._read[disk] = {}
            if path.lexists():
                from kseg.node.log_directory import checkpoint_offsets  # most small dumps need none

                self._read[disk] = checkpoint_offsets(path)
                if self._warn is not None and not self._read[disk] and path.size() > len(_EMPTY_CHECKPOINT):
                    self._warn(f"{path}: cannot be read: the log starts at the first segment of each partition")
        return self._read[disk]

    @cached_property
    def _disks(self) -> list[str]:
        """The log directories at the PATHs, or around their partitions and segments."""
        found = dict[str, None]()
        for path in map(os.path.abspath, filter(lambda path: not is_url(path), self._paths)):
            partition = path if Place(path).is_dir() else Place(path).parent
            is_inside = parse_partition_name(os.path.basename(partition)) is not None
            found[Place(partition).parent if is_inside else path] = None
        return list(found)

    @cached_property
    def _nodes(self) -> "Nodes":
        from kseg.node.node import Nodes  # only several disks need them

        return Nodes(self._disks)

    def _moved_from(self, disk: str, name: str, place: tuple[str, int]) -> int:
        """Returns the one offset that the other disks of the node have for a partition that lies on none of them."""
        if len(self._disks) < 2:
            return 0
        own = os.path.realpath(disk)
        others = [one for one in self._nodes.at(disk).directories if os.path.realpath(one.path) != own]
        if any(name in one.directories for one in others):
            return 0
        offsets = {offset for one in others if (offset := self._at(one.path).get(place)) is not None}
        return offsets.pop() if len(offsets) == 1 else 0


def _is_beyond_end(directory: str, offset: int) -> bool:
    """Whether the log ends below an offset; no if it cannot be read."""
    from kseg.segment.seek import offset_extent  # few logs have a log start in their last segment

    with suppress(KsegError, OSError):
        logs = [file for file in list_segments(directory) if file.kind == LOG]
        if not logs or offset <= (logs[-1].base_offset or 0):
            return False
        with open_segment(logs[-1]) as reader:
            extent = offset_extent(reader, logs[-1])
        return extent is not None and offset > extent[1] + 1
    return False
