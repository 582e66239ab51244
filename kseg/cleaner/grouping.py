"""Groups segments that are cleaned into one (Cleaner.groupSegmentsBySize)."""

from collections.abc import Sequence

from kseg.cleaner.log import CleanerSegment
from kseg.cleaner.settings import CleanerSettings
from kseg.formats.suffixes import INDEX, TIME_INDEX
from kseg.kernel.layout.headers import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kseg.segment.writer import LARGEST_DELTA


def group_segments(
    segments: Sequence[CleanerSegment], end: int, settings: CleanerSettings
) -> list[list[CleanerSegment]]:
    """Groups adjacent segments, oldest first, as long as they fit in one; ``end`` is the end of the dirty range."""
    groups: list[list[CleanerSegment]] = []
    for i, segment in enumerate(segments):
        last_offset = (segments[i + 1].base_offset if i + 1 < len(segments) else end) - 1
        if groups and _fits(groups[-1], segment, last_offset, settings):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: Sequence[CleanerSegment], segment: CleanerSegment, last_offset: int, settings: CleanerSettings
) -> bool:
    together = [*group, segment]
    return (
        sum(part.size for part in together) <= settings.segment_bytes
        and _entry_bytes(together, INDEX, OFFSET_ENTRY_BYTES) <= settings.index_bytes
        and _entry_bytes(together, TIME_INDEX, TIME_ENTRY_BYTES) <= settings.index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= LARGEST_DELTA)
    )


def _entry_bytes(group: Sequence[CleanerSegment], suffix: str, width: int) -> int:
    """Returns the size of all whole entries, of ``width`` bytes each, in an index of the segments."""
    return sum(part.side_bytes(suffix) // width * width for part in group)
