"""Counts a partition's segments, bytes and records before and after retention."""

from dataclasses import dataclass

from kseg.formats.suffixes import LOG
from kseg.retention.partition_plan import Retention
from kseg.segment.record_count import RecordCounter

UNASKED_BYTES = 16 << 30
"""Records of a larger log are counted only on request: counting reads all batch headers."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Pairs are (before, after). ``sizes`` in bytes; ``counts``: the records of each segment, None if unknown;
    ``gone``: the number of deleted segments, the oldest ones."""

    directory: str
    segments: tuple[int, int]
    sizes: tuple[int, int]
    counts: tuple[int | None, ...]
    gone: int

    @property
    def records(self) -> tuple[int, int] | None:
        """Records before and after; None if those of any segment are unknown."""
        known = [count for count in self.counts if count is not None]
        if len(known) < len(self.counts):
            return None
        return sum(known), sum(known[self.gone :])


def amounts(found: Retention, is_asked: bool) -> Amounts:
    """Counts segments, bytes and, below UNASKED_BYTES or if ``is_asked``, records.

    Raises PathError if a segment cannot be read.
    """
    segments, gone = found.log.segments, len(found.selection.why)
    counts: list[int | None] = [None] * len(segments)
    if is_asked or found.log.size <= UNASKED_BYTES:
        counter = RecordCounter()
        # Up to 0.7 the format has no headers to count by; only the file suffix identifies such a log.
        counts = [counter.count(each.file.path) if each.file.kind == LOG else None for each in segments]
    sizes = found.log.size, sum(span.size for span in found.left)
    return Amounts(found.log.directory, (len(segments), len(found.left)), sizes, tuple(counts), gone)
