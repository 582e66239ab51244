"""Chooses the parts of a segment that lie where they lay before the damage: the heaviest run with rising offsets.

Damage that moves nothing keeps the order of the file and of the offsets alike. Of batches that were moved, copied or
given another offset, the smaller number is left out.
"""

from array import array
from bisect import bisect_left, bisect_right

from kseg.recovery.salvage.parts import Parts


def longest_rising_run(parts: Parts) -> list[int] | None:
    """The numbers of the parts in the heaviest rising run. None if all of them rise."""
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
