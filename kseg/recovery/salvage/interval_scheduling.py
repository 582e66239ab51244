"""The choice among batches that claim the same offsets: that which keeps most records.

Weighted interval scheduling over pieces: stretches of batches whose offsets go on without a gap. Pieces that overlap
are cut first where another one begins or ends, so that each stands or falls by the batches that are in dispute.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_RECORD_BITS = 60


class Piece(NamedTuple):
    """Batches at ``[start, end)`` of the file number ``source``, with offsets ``first`` to ``last``.

    ``preference`` decides between equal numbers of records: the higher one stays. ``is_loose``: a single batch outside
    the bounds that the file's name tells, which no batch beside it leads to: its offset may be wrong.
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


def schedule(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that stay, by offset: no two overlap, and no other choice has more records.

    Where several have as many, the preferences of the pieces decide, then the number of the source and the position.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.last, piece.first, piece.source, piece.start))
    lasts = [piece.last for piece in ordered]
    best, before = [0], list[int]()
    for i, piece in enumerate(ordered):
        before.append(bisect_left(lasts, piece.first, 0, i))
        best.append(max(best[i], _weight(piece) + best[before[i]]))
    chosen, i = list[Piece](), len(ordered)
    while i:
        if best[i] == best[i - 1]:
            i -= 1
        else:
            chosen.append(ordered[i - 1])
            i = before[i - 1]
    return chosen[::-1]


def _weight(piece: Piece) -> int:
    records = max(piece.records, 1)
    return (records << _RECORD_BITS) + records * piece.preference


def overlapping_clusters(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces by offset, those that overlap, directly or by way of others, together."""
    cluster, reached = list[Piece](), -1
    for piece in sorted(pieces):
        if cluster and piece.first > reached:
            yield cluster
            cluster = []
        cluster.append(piece)
        reached = max(reached, piece.last) if len(cluster) > 1 else piece.last
    if cluster:
        yield cluster


def cut_at_conflicts(pieces: Iterable[Piece], batches_of: Callable[[Piece], Iterator[Piece]]) -> list[Piece]:
    """The pieces, those that overlap cut where others begin or end. ``batches_of`` gives the batches of a piece."""
    found: list[Piece] = []
    for cluster in overlapping_clusters(pieces):
        cuts = sorted({piece.first for piece in cluster} | {piece.last + 1 for piece in cluster})
        for piece in cluster:
            is_cut = bisect_right(cuts, piece.first) < bisect_right(cuts, piece.last)
            found += _joined(batches_of(piece), cuts) if is_cut else [piece]
    return found


def _joined(batches: Iterator[Piece], cuts: list[int]) -> Iterator[Piece]:
    """Batches of a piece joined again, up to those that hold a cut: these stay alone."""
    held: Piece | None = None
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
