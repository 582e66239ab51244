"""Determines whether the log cleaner made the gaps of a log.

Sources: Cleaner and LogToClean of Kafka 4.3.1.
"""

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from kseg.errors import KsegError
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX
from kseg.segment.batches import Batch
from kseg.segment.cleaner_reach import cleaner_reach
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores import trees
from kseg.stores.source import open_source

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition

MANY_GAPS, BATCHES_A_GAP = 8, 4
"""A segment with at least this many gaps, and at least one per so many batches, was cleaned rather than damaged."""


_ENTRY_BYTES = 12
"""The size of the largest entry of an index."""


class GapCause(Enum):
    """The cause of gaps; DAMAGE: any but the cleaner."""

    CLEANER = "cleaner"
    DAMAGE = "damage"
    UNKNOWN = "unknown"


def cause_of_gaps(partition: "Partition", before: int, are_scattered: bool) -> GapCause:
    """Returns the cause of a partition's gaps. ``before``: offset at which the last one begins; ``are_scattered``: see
    `is_scattered`."""
    if reach_in(partition, before) < before:
        return GapCause.DAMAGE
    if are_scattered or _was_replaced(partition):
        return GapCause.CLEANER
    # A broker that has cleaned a log has a checkpoint for it; one that knows the topic has its policy.
    if partition.broker.is_known:
        return GapCause.DAMAGE
    return GapCause.CLEANER if shows_cleaning(partition) else GapCause.UNKNOWN


def shows_cleaning(partition: "Partition") -> bool:
    """Whether there are segments that only the cleaner leaves: next to their older version, or empty."""
    return _was_replaced(partition) or any(map(_was_emptied, _closed(partition)))


def is_scattered(gaps: int, batches: int) -> bool:
    """Whether a segment with these numbers of gaps and batches looks compacted."""
    return gaps >= MANY_GAPS and gaps * BATCHES_A_GAP >= batches


def _closed(partition: "Partition") -> "list[CheckedSegment]":
    return [segment for segment in partition.segments if not segment.is_last]


def _was_replaced(partition: "Partition") -> bool:
    """Whether a segment has an older version, with the same base offset, that was marked as deleted."""
    return any(f"{segment.file.name}.deleted" in partition.names for segment in partition.segments)


def _was_emptied(segment: "CheckedSegment") -> bool:
    """Whether a closed segment and its indexes are empty; a broker rolls no empty segment."""
    if segment.size:
        return False
    try:
        return not any(trees.status(segment.beside(suffix)).st_size for suffix in (INDEX, TIME_INDEX))
    except OSError:
        return False


def lost_segments(partition: "Partition") -> "list[CheckedSegment]":
    """Returns the closed segments that are empty although an index has entries: it was not the cleaner that emptied
    them, because it writes new indexes."""
    return [
        segment for segment in _closed(partition) if not (segment.size or segment.is_unread) and _is_indexed(segment)
    ]


def _is_indexed(segment: "CheckedSegment") -> bool:
    for suffix in (INDEX, TIME_INDEX):
        try:
            with open_source(segment.beside(suffix)) as source:
                if any(bytes(source.buffer[: min(source.size, _ENTRY_BYTES)])):  # zeros are space for entries
                    return True
        except KsegError:
            continue
    return False


def reach_in(partition: "Partition", before: int) -> int:
    """Returns the `cleaner_reach` of a partition's segments."""
    return cleaner_reach(_batches(partition, before), before)


def _batches(partition: "Partition", before: int) -> Iterator[Batch]:
    """Yields the batches of segments that begin before an offset."""
    scratch = partition.buffers.scratch
    for segment in partition.segments:
        if segment.path == "-" or segment.is_unread or segment.file.kind != LOG or (segment.base_offset or 0) >= before:
            continue
        try:
            with open_source(segment.path) as source:
                yield from (item for item in SegmentReader(source, scratch=scratch) if not isinstance(item, Damage))
        except KsegError:
            continue  # errors of the file were reported when it was checked
