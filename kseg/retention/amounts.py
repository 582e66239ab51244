"""How much there was of a partition and how much is left: segments, bytes, records."""

from dataclasses import dataclass

from kseg.retention.planning import Retention
from kseg.segment.record_count import RecordCounter

UNASKED_BYTES = 16 << 30
"""Of a larger log records are counted only where that was asked for: all of its headers have to be read."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Pairs are before and after. ``counts``: the records of each segment, None where that is not known."""

    directory: str
    segments: tuple[int, int]
    sizes: tuple[int, int]
    counts: tuple[int | None, ...]
    gone: int

    @property
    def records(self) -> tuple[int, int] | None:
        """None where those of any segment are not known."""
        known = [count for count in self.counts if count is not None]
        if len(known) < len(self.counts):
            return None
        return sum(known), sum(known[self.gone :])


def amounts(found: Retention, is_asked: bool) -> Amounts:
    """Raises PathError where a segment cannot be read. ``is_asked``: records are counted whatever the size."""
    segments, gone = found.log.segments, len(found.selection.why)
    counts: list[int | None] = [None] * len(segments)
    if is_asked or found.log.size <= UNASKED_BYTES:
        counter = RecordCounter()
        # Up to 0.7 no header tells, and the file name alone says that it is such a log.
        counts = [counter.count(each.file.path) if each.file.kind == ".log" else None for each in segments]
    sizes = found.log.size, sum(span.size for span in found.left)
    return Amounts(found.log.directory, (len(segments), len(found.left)), sizes, tuple(counts), gone)
