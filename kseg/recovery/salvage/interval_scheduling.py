"""Chooses among batches that claim the same offsets so that most records are kept.

This is weighted interval scheduling over pieces: runs of batches with contiguous offsets. Overlapping pieces are first
cut where another one begins or ends, so that only the conflicting batches are decided on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_RECORD_BITS = 60


class OffsetInterval(NamedTuple):
    """Batches at ``[start, end)`` of the file number ``source``, with offsets ``first`` to ``last``.

    ``preference`` decides between equal numbers of records: the higher one is kept. ``is_loose``: a single batch
    outside the offsets of its file, with no neighbour that continues to it; its offset may be wrong.
    """

    first: int
    last: int
    source: int
    start: int
    end: int
    records: int
    batches: int = 1
    preference: int = 0
    is_loose: bool = False


def schedule(pieces: Iterable[OffsetInterval]) -> list[OffsetInterval]:
    """Returns the kept pieces by offset: no two overlap, and no other choice has more records.

    Between choices with equal numbers, the preferences of the pieces decide, then source number and position.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.last, piece.first, piece.source, piece.start))
    lasts = [piece.last for piece in ordered]
    best, before = [0], list[int]()
    for i, piece in enumerate(ordered):
        before.append(bisect_left(lasts, piece.first, 0, i))
        best.append(max(best[i], _weight(piece) + best[before[i]]))
    chosen, i = list[OffsetInterval](), len(ordered)
    while i:
        if best[i] == best[i - 1]:
            i -= 1
        else:
            chosen.append(ordered[i - 1])
            i = before[i - 1]
    return chosen[::-1]


def _weight(piece: OffsetInterval) -> int:
    records = max(piece.records, 1)
    return (records << _RECORD_BITS) + records * piece.preference


def overlapping_clusters(pieces: Iterable[OffsetInterval]) -> Iterator[list[OffsetInterval]]:
    """Yields the pieces by offset, in groups that overlap directly or through others."""
    cluster, reached = list[OffsetInterval](), -1
    for piece in sorted(pieces):
        if cluster and piece.first > reached:
            yield cluster
            cluster = []
        cluster.append(piece)
        reached = max(reached, piece.last) if len(cluster) > 1 else piece.last
    if cluster:
        yield cluster


def cut_at_conflicts(
    pieces: Iterable[OffsetInterval], batches_of: Callable[[OffsetInterval], Iterator[OffsetInterval]]
) -> list[OffsetInterval]:
    """Returns the pieces; overlapping ones are cut where others begin or end. ``batches_of`` yields the batches of a
    piece."""
    found: list[OffsetInterval] = []
    for cluster in overlapping_clusters(pieces):
        cuts = sorted({piece.first for piece in cluster} | {piece.last + 1 for piece in cluster})
        for piece in cluster:
            is_cut = bisect_right(cuts, piece.first) < bisect_right(cuts, piece.last)
            found += _joined(batches_of(piece), cuts) if is_cut else [piece]
    return found


def _joined(batches: Iterator[OffsetInterval], cuts: list[int]) -> Iterator[OffsetInterval]:
    """Yields the batches of a piece, joined between cuts; a batch that contains a cut is a piece of its own."""
    held: OffsetInterval | None = None
    for batch in batches:
        at = bisect_left(cuts, batch.first)
        begins = at < len(cuts) and cuts[at] == batch.first
        holds = bisect_right(cuts, batch.first) < bisect_right(cuts, batch.last)
        if held is not None and (begins or holds):
            yield held
            held = None
        if holds:
            yield batch
        elif held is None:
            held = batch
        else:
            held = held._replace(
                last=batch.last, end=batch.end, records=held.records + batch.records, batches=held.batches + 1
            )
    if held is not None:
        yield held
