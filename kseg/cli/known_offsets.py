"""What the checkpoints of a log directory say of a partition, read from the files as a command found them."""

import os

from kseg.cli.changing import Known
from kseg.errors import KsegError
from kseg.segment.files import parse_partition_name
from kseg.sidefiles.checkpoints import OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.problems import entries_of, problems_of

Partition = tuple[str, int]
HIGH_WATERMARKS = "replication-offset-checkpoint"


def place_of(directory: str) -> Partition | None:
    """Topic and number of a partition, None for one that a broker has moved: checkpoints do not mean that."""
    name = os.path.basename(os.path.abspath(directory))
    place = parse_partition_name(name)
    return place if place is not None and name == f"{place[0]}-{place[1]}" else None


def entries_of_checkpoint(directory: str, name: str, known: Known) -> list[OffsetCheckpoint]:
    """Of a checkpoint. Raises KsegError where it cannot be read."""
    file = known.get(name)
    items = list(read_offset_checkpoint(file.content if file else b""))
    if problems := problems_of(items):
        raise KsegError(
            f"{os.path.join(directory, name)}: {problems[0].message}: a broker stops at it; kseg recover makes it anew"
        )
    return entries_of(items)


def offset_in(directory: str, name: str, known: Known, place: Partition) -> int | None:
    found = {(entry.topic, entry.partition): entry.offset for entry in entries_of_checkpoint(directory, name, known)}
    return found.get(place)
