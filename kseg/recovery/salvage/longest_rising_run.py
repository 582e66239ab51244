"""Chooses the parts of a segment that are in their original places: the heaviest run with rising offsets.

Damage that moves nothing preserves the order of the offsets in the file. If batches were moved, copied or given other
offsets, the smaller number of them is left out.
"""

from array import array
from bisect import bisect_left, bisect_right

from kseg.recovery.salvage.parts import Parts


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
