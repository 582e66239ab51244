"""Predicts which offsets of a damaged partition a salvage restores: only the others are lost."""

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.segment.files import segment_stem
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.source import open_source

if TYPE_CHECKING:
    from kseg.verification.partition import CheckedSegment, Partition

Range = tuple[int, int]
"""First and last offset."""


class Outlook(NamedTuple):
    """The result of a salvage: the offset after its last batch, and the offsets before it that no batch has.

    ``has_cuts``: some damaged bytes are cut out, not mended.
    """

    next_offset: int
    missing: list[Range]
    has_cuts: bool

    def still_missing(self, first: int, last: int) -> Range | None:
        """Returns the smallest range with all offsets of a range that stay missing, None if there are none."""
        found = [(max(first, a), min(last, b)) for a, b in self.missing if a <= last and first <= b]
        if last >= self.next_offset:
            found.append((max(first, self.next_offset), last))
        return (min(a for a, _ in found), max(b for _, b in found)) if found else None


NOTHING_RESTORED = Outlook(0, [], True)


def outlook_of(partition: "Partition") -> Outlook:
    """Returns the outlook for a partition, or for a single file of one. It is computed once."""
    if partition.outlook is None:
        try:
            partition.outlook = _outlook(partition)
        except (KsegError, OSError):
            partition.outlook = NOTHING_RESTORED
    return partition.outlook


def _outlook(partition: "Partition") -> Outlook:
    from kseg.recovery.options import BrokerStart
    from kseg.recovery.salvage.salvage import forecast_salvage  # few partitions are damaged

    segments = partition.segments
    if partition.directory is None or partition.is_live or any(segment.file.is_07 for segment in segments):
        return NOTHING_RESTORED
    if not partition.is_whole and not _is_taken(segments[0]):
        return _outlook_of_file(partition, segments[0])
    start = BrokerStart(log_start_offset=partition.broker.log_start_offset or 0, jobs=partition.jobs)
    return Outlook(*forecast_salvage(partition.directory, start, partition.buffers.scratch))


def _is_taken(segment: "CheckedSegment") -> bool:
    """Whether a salvage of its directory takes a file for a segment under its own name."""
    name = segment.file.name
    return name.partition(".")[0] == segment_stem(segment.base_offset or 0) and not name.endswith(PACKED_SUFFIXES)


def _outlook_of_file(partition: "Partition", segment: "CheckedSegment") -> Outlook:
    """Returns the outlook for a file that no salvage of its directory takes for a segment."""
    from kseg.recovery.salvage.segment_scan import scan_segment

    base = segment.base_offset or 0
    with open_source(segment.path) as source:
        found = scan_segment(source, base, None, partition.buffers.scratch, partition.jobs)
    ends = [(base, base), *((part.first, part.last + 1) for part in found.parts)]
    holes = [(end, first - 1) for (_, end), (first, _) in pairwise(ends) if end < first]
    return Outlook(ends[-1][1], holes, bool(found.cuts))
