"""Reads the files in the root of a log directory, as they are before a command's first change."""

import os
from collections.abc import Iterable, Mapping

from kseg.changes.journal import RootFile, read_root_file
from kseg.errors import KsegError
from kseg.segment.files import CLEAN_SHUTDOWN, parse_partition_name
from kseg.sidefiles.checkpoints import OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.problems import entries_of, problems_of

Known = Mapping[str, RootFile | None]
"""Files by name, the clean shutdown marker among them; None for no file."""

TopicPartition = tuple[str, int]


def known_root_files(root: str, names: Iterable[str]) -> Known:
    """Reads the files and the marker. Raises KsegError if one cannot be read."""
    return {name: read_root_file(root, name) for name in {CLEAN_SHUTDOWN, *names}}


def topic_partition_of(directory: str) -> TopicPartition | None:
    """Returns topic and partition number; None for a directory that a broker has renamed (-delete, -future, -stray).

    Checkpoints have no entries for such a directory.
    """
    name = os.path.basename(os.path.abspath(directory))
    found = parse_partition_name(name)
    return found if found is not None and name == f"{found[0]}-{found[1]}" else None


def checkpoint_entries(directory: str, name: str, known: Known) -> list[OffsetCheckpoint]:
    """Returns the entries of a checkpoint file, none if there is no file. Raises KsegError if it cannot be read."""
    file = known.get(name)
    items = list(read_offset_checkpoint(file.content if file else b""))
    if problems := problems_of(items):
        raise KsegError(
            f"{os.path.join(directory, name)}: {problems[0].message}: a broker stops at it; kseg recover makes it anew"
        )
    return entries_of(items)


def checkpoint_offset(directory: str, name: str, known: Known, partition: TopicPartition) -> int | None:
    """Returns the offset of a partition in a checkpoint file. Raises KsegError if the file cannot be read."""
    for entry in reversed(checkpoint_entries(directory, name, known)):
        if (entry.topic, entry.partition) == partition:
            return entry.offset
    return None
