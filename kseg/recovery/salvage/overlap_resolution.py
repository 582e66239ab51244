"""Decides which of two batches with overlapping offsets is right, in a compacted segment.

Gaps are no sign of damage there, and no checksum covers an offset, so either batch may be wrong. Side files decide.
Without them, a batch is wrong if it alone is a single bit away from offsets that are free between its neighbours.
Otherwise it is ambiguous: the batch with more records stays at its offsets, and the other one is cut out.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

from kseg.formats.rows import Scratch, UndecodableError
from kseg.recovery.salvage.header_repair import fingerprint, one_bit_away, only_one_bit_away
from kseg.recovery.salvage.offset_evidence import OffsetEvidence
from kseg.recovery.salvage.parts import Parts, SalvagedBatches, batch_of
from kseg.stores.source import Source

# Chooses the parts of a segment that are in their original places: the heaviest run with rising offsets.
#
# Damage that moves nothing preserves the order of the offsets in the file. If batches were moved, copied or given
# other offsets, the smaller number of them is left out.


def longest_rising_run(parts: Parts) -> list[int] | None:
    """Returns the numbers of the parts in the heaviest rising run; None if all parts rise."""
    if parts.is_rising:
        return None
    lasts: list[int] = []
    best: list[int] = []
    ends: list[int] = []
    before = array("q")
    for i, part in enumerate(parts):
        k = bisect_left(lasts, part.first)
        before.append(ends[k - 1] if k else -1)
        weight = parts.weights[i] + (best[k - 1] if k else 0)
        k = bisect_right(lasts, part.last)
        if k and best[k - 1] >= weight:
            continue
        stop = k
        while stop < len(best) and best[stop] <= weight:
            stop += 1
        if k and lasts[k - 1] == part.last:
            k -= 1
        lasts[k:stop], best[k:stop], ends[k:stop] = [part.last], [weight], [i]
    chosen, i = [], ends[-1]
    while i >= 0:
        chosen.append(i)
        i = before[i]
    return chosen[::-1]


_TWO_BATCHES = 4


@dataclass(slots=True)
class OverlapResult:
    """The result for the losing batch. ``expected``: its right first offset if known, else -1; ``doubt``: why it is
    unknown which of the two batches is right, else ""."""

    expected: int = -1
    doubt: str = ""


@dataclass(slots=True)
class _Side:
    """One of the two batches, and the free range of offsets around it if the other one is right."""

    number: int
    part: SalvagedBatches
    low: int
    high: int

    def is_free(self, first: int) -> bool:
        return self.low < first and first + self.part.last - self.part.first < self.high


class OverlapResolution:
    """Resolves overlaps among the ``parts`` of a segment, which may hold offsets ``base`` to ``limit``."""

    def __init__(
        self, source: Source, parts: Parts, base: int, limit: int, evidence: OffsetEvidence | None, scratch: Scratch
    ) -> None:
        self._source, self._parts, self._evidence, self._scratch = source, parts, evidence, scratch
        self._base, self._limit = base, limit

    def resolve(self, chosen: list[int], verdicts: dict[int, OverlapResult]) -> dict[int, OverlapResult]:
        """Returns the verdicts on all parts that are not kept, by number; ``verdicts``: on the parts that were not
        chosen."""
        taken, verdicts = list(chosen), dict(verdicts)
        for number in sorted(verdicts):
            index = bisect_left(taken, number)
            rivals = self._rivals(taken, index, self._parts[number])
            if len(rivals) != 1 or not all(is_one_batch(self._parts, one) for one in (number, taken[rivals[0]])):
                continue
            loser, verdict = self._judge(taken, rivals[0], number)
            if loser != number:
                del taken[rivals[0]], verdicts[number]
                insort(taken, number)
            verdicts[loser] = verdict
        return verdicts

    def _rivals(self, taken: list[int], index: int, part: SalvagedBatches) -> list[int]:
        """Returns indexes into ``taken`` of the parts in the way of a part; at most two."""
        found = list[int]()
        at = index - 1
        while at >= 0 and len(found) < 2 and self._parts[taken[at]].last >= part.first:
            found.append(at)
            at -= 1
        at = index
        while at < len(taken) and len(found) < 2 and self._parts[taken[at]].first <= part.last:
            found.append(at)
            at += 1
        return found

    def _judge(self, taken: list[int], at: int, number: int) -> tuple[int, OverlapResult]:
        """Returns the losing part and its verdict. Two parts that do not overlap may both be kept, in another order
        than in the file."""
        one, two = self._parts[taken[at]], self._parts[number]
        if one.first > two.last or two.first > one.last:
            return number, OverlapResult()
        if fingerprint(self._source, one) == fingerprint(self._source, two) and one.first == two.first:
            return number, OverlapResult()
        low = self._parts[taken[at - 1]].last if at else self._base - 1
        high = self._parts[taken[at + 1]].first if at + 1 < len(taken) else self._limit + 1
        is_before = taken[at] < number
        stays = _Side(taken[at], one, low if is_before else two.last, two.first if is_before else high)
        other = _Side(number, two, one.last if is_before else low, high if is_before else one.first)
        return self._by_evidence(stays, other) or self._by_bits(stays, other)

    def _by_evidence(self, one: _Side, two: _Side) -> tuple[int, OverlapResult] | None:
        if self._evidence is None:
            return None
        offsets = [self._evidence.indicated_offset(self._source, side.part) for side in (one, two)]
        is_right = [offset == side.part.first for offset, side in zip(offsets, (one, two), strict=True)]
        is_wrong = [
            offset is not None and not right and side.is_free(offset)
            for offset, right, side in zip(offsets, is_right, (one, two), strict=True)
        ]
        for k, side in enumerate((one, two)):
            if (is_right[1 - k] and not is_right[k]) or (is_wrong[k] and not is_wrong[1 - k]):
                offset = offsets[k]
                return side.number, OverlapResult(self._only(side) if offset is None or not is_wrong[k] else offset)
        return None

    def _by_bits(self, one: _Side, two: _Side) -> tuple[int, OverlapResult]:
        readings = [len(one_bit_away(self._source, side.part, side.low, side.high)) for side in (one, two)]
        for k, side in enumerate((one, two)):
            if readings[k] and not readings[1 - k]:
                return side.number, OverlapResult(self._only(side))
        # More such offsets mean more ways in which the batch may have been damaged.
        ranks = [(self._records(side.part), -count) for side, count in zip((one, two), readings, strict=True)]
        winner, loser = (one, two) if ranks[0] >= ranks[1] else (two, one)
        part = winner.part
        doubt = (
            f"or {part.first} to {part.last} of the batch at position {part.start} are wrong: which is ambiguous, and "
            "that batch has no fewer records"
        )
        return loser.number, OverlapResult(doubt=doubt)

    def _only(self, side: _Side) -> int:
        return only_one_bit_away(self._source, side.part, side.low, side.high)

    def _records(self, part: SalvagedBatches) -> int:
        try:
            return sum(rows.count for rows in batch_of(self._source, part, self._scratch).rows())
        except UndecodableError:
            return 0


def is_one_batch(parts: Parts, number: int) -> bool:
    """Whether a part is a single unchanged batch of the file, by its weight."""
    return parts.weights[number] < _TWO_BATCHES and not parts[number].head
