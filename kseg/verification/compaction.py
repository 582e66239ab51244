"""Whether the log cleaner may have made the gaps of a log, by what it left.

Sources: Cleaner and LogToClean of Kafka 4.3.1.
"""

import os
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from kseg.errors import KsegError
from kseg.segment.batches import Batch
from kseg.segment.cleaner_reach import cleaner_reach
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source

if TYPE_CHECKING:
    from kseg.verification.partition import Partition, Segment

MANY_GAPS, BATCHES_A_GAP = 8, 4
"""So many gaps in one segment, one to so many batches at least, look like a cleaner's work and not like damage."""


class Maker(Enum):
    """Who has made the gaps: the cleaner, by what it left; not the cleaner; or nobody can tell."""

    CLEANER = "cleaner"
    DAMAGE = "damage"
    UNKNOWN = "unknown"


def maker_of_gaps(partition: "Partition", before: int, are_scattered: bool) -> Maker:
    """``before`` is the offset at which the last gap begins; ``are_scattered`` as `is_scattered` has it."""
    if reach_in(partition, before) < before:
        return Maker.DAMAGE
    if are_scattered or shows_cleaning(partition):
        return Maker.CLEANER
    # A broker that has cleaned a log, or that knows its topic's settings, would tell.
    return Maker.DAMAGE if partition.broker.is_known else Maker.UNKNOWN


def shows_cleaning(partition: "Partition") -> bool:
    """Whether there are segments that only a cleaner leaves: beside their older form, or empty."""
    return _was_replaced(partition) or any(map(_was_emptied, _closed(partition)))


def is_scattered(gaps: int, batches: int) -> bool:
    """Whether a segment with so many of both looks thinned out."""
    return gaps >= MANY_GAPS and gaps * BATCHES_A_GAP >= batches


def _closed(partition: "Partition") -> "list[Segment]":
    return [segment for segment in partition.segments if not segment.is_last]


def _was_replaced(partition: "Partition") -> bool:
    """Whether a segment lies beside an older one of the same base offset that was marked as deleted."""
    return any(f"{segment.file.name}.deleted" in partition.names for segment in partition.segments)


def _was_emptied(segment: "Segment") -> bool:
    """Whether a closed segment has nothing left, in its indexes either: a broker rolls no empty one.

    Where the .log alone has lost its bytes, its time index still tells of them.
    """
    if segment.size:
        return False
    try:
        return not any(os.stat(segment.beside(suffix)).st_size for suffix in (".index", ".timeindex"))
    except OSError:
        return False


def reach_in(partition: "Partition", before: int) -> int:
    """`cleaner_reach` of the segments of a partition."""
    return cleaner_reach(_batches(partition, before), before)


def _batches(partition: "Partition", before: int) -> Iterator[Batch]:
    """Those of segments that begin before an offset."""
    scratch = partition.buffers.scratch
    for segment in partition.segments:
        if (
            segment.path == "-"
            or segment.is_unread
            or segment.file.kind != ".log"
            or (segment.base_offset or 0) >= before
        ):
            continue
        try:
            with open_source(segment.path) as source:
                yield from (item for item in SegmentReader(source, scratch=scratch) if not isinstance(item, Damage))
        except KsegError:
            continue  # whatever is wrong with the file was told when it was judged
