"""Finds damage that a broker's recovery leaves in a log, from the headers of the kept batches.

The headers come from the scan of segments; nothing more is read. Segments that are not scanned, and records under right
checksums, are not checked: `kseg.verification` does that.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from kseg.changes.accepted_gaps import accepted_gaps
from kseg.formats.rows import int64s
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_MAGIC, BATCH_POSITION, BATCH_WIDTH
from kseg.kernel.scan import chain
from kseg.kernel.scan.events import EVENT_WIDTH
from kseg.recovery.broker.segments import BrokerSegment
from kseg.segment.survey import HeaderRows

MAX_EVENTS_PER_KIND = 3
"""Limit of listed problems of one kind per segment."""

GAP = "gap-unexplained"
_CODES = {
    chain.GAP: (GAP, "does not go on from the one before it"),
    chain.NOT_RISING: ("batch-out-of-order", "does not begin behind the one before it"),
    chain.WRONG_OFFSET: ("wrong-base-offset", "has a base offset that does not fit its neighbours"),
    chain.OUTSIDE: ("offset-outside-segment", "has an offset that its segment cannot hold"),
    chain.COUNT: ("count-mismatch", "claims more records than it has offsets for"),
}


class Remaining(NamedTuple):
    """A problem of the batch at ``position``, with the code of verify; ``offset`` is -1 if unknown.

    ``missing``: first and last offset of a gap before the batch.
    """

    file: str
    position: int
    offset: int
    code: str
    text: str
    missing: tuple[int, int] | None = None


class SegmentRemains:
    """The problems found by a scan of one segment."""

    def __init__(self, segment: BrokerSegment) -> None:
        self.file = segment.log
        events = int64s(MAX_EVENTS_PER_KIND * chain.KINDS * EVENT_WIDTH)
        self._chain = chain.Chain(segment.base_offset, limit=MAX_EVENTS_PER_KIND, rows=events)
        self.found: list[Remaining] = []

    def add(self, headers: HeaderRows) -> None:
        """Adds batches. Those that a broker reads as v2 despite their magic come one at a time (`AcceptedBatches`)."""
        magic = headers.rows[BATCH_MAGIC]
        if magic > MAGIC_V2 and len(self.found) < MAX_EVENTS_PER_KIND:
            position, offset = headers.rows[BATCH_POSITION], headers.rows[BATCH_FIRST_OFFSET]
            text = f"names no format in its magic, which is {magic}"
            self.found.append(Remaining(self.file, position, offset, "bad-magic", text))
        chain.follow(headers.rows, headers.count, self._chain)
        for kind, row, a, b, _ in self._chain.written():
            if kind in _CODES:
                at = row * BATCH_WIDTH
                position, offset = headers.rows[at + BATCH_POSITION], headers.rows[at + BATCH_FIRST_OFFSET]
                offset = offset if offset >= 0 else headers.rows[at + BATCH_LAST_OFFSET]
                missing = (a, b - 1) if kind == chain.GAP else None
                self.found.append(Remaining(self.file, position, offset, *_CODES[kind], missing))

    @property
    def last_offset(self) -> int:
        return int(self._chain.last_offset)

    @property
    def is_thinned(self) -> bool:
        """Whether batches have fewer records than offsets, as a log cleaner leaves them."""
        return bool(self._chain.sparse > 0)


def remaining(directory: str, bases: Iterable[int], scanned: Mapping[int, SegmentRemains]) -> list[Remaining]:
    """Returns the problems in the scanned segments among those with these bases, and between them.

    Leaves out accepted gaps, and all gaps if the batches show that the log was compacted.
    """
    bases = sorted(bases)
    found = [one for base in bases if base in scanned for one in scanned[base].found]
    found += _steps(bases, scanned)
    if any(one.missing for one in found):
        is_thinned = any(scanned[base].is_thinned for base in bases if base in scanned)
        missing = sorted(one.missing for one in found if one.missing)
        accepted = accepted_gaps(directory).among(missing, bases[0])
        found = [one for one in found if not one.missing or not (is_thinned or one.missing in accepted)]
    return sorted(found)


def _steps(bases: list[int], scanned: Mapping[int, SegmentRemains]) -> Iterator[Remaining]:
    """Yields the problems between a scanned segment and the next one."""
    for before, base in pairwise(bases):
        if before not in scanned or base not in scanned:
            continue
        last, file = max(scanned[before].last_offset, before - 1), scanned[base].file
        if base <= last:
            yield Remaining(file, 0, base, "segments-overlap", "starts below the end of the previous segment")
        elif base > last + 1:
            yield Remaining(file, 0, base, *_CODES[chain.GAP], (last + 1, base - 1))
