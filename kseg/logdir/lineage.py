"""Selects the live remote segments of a partition, and the offsets to take from each.

A segment is found by leader epoch and offset, never by the offset alone: after an unclean election the same offsets are
written and copied twice. The lineage (the entries of a leader-epoch-checkpoint) gives the epoch of each offset.
Segments that hold the same offsets of the same epoch have the same records; of these the one with the highest end
offset is taken. Sources: RemoteLogMetadataCache and RemoteLogManager of Kafka.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Generic, NamedTuple, TypeVar

from kseg.limits import MAX_OFFSET
from kseg.sidefiles.leader_epochs import EpochEntry

T = TypeVar("T")

Lineage = Sequence[EpochEntry]


class Candidate(NamedTuple, Generic[T]):
    """A whole remote segment. ``epochs`` are the entries of its leader epoch file, from the log's first epoch on."""

    segment: T
    start_offset: int
    end_offset: int
    epochs: Lineage


class SegmentOffsets(NamedTuple, Generic[T]):
    """Offsets ``first`` to ``last`` of a segment."""

    candidate: Candidate[T]
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        return self.first <= self.candidate.start_offset and self.last >= self.candidate.end_offset


class MissingOffsets(NamedTuple):
    """Offsets that no segment holds."""

    first: int
    last: int


class LiveSegments(NamedTuple, Generic[T]):
    """``pieces`` by offset. ``abandoned``: segments that hold records of leaders outside the lineage. ``superseded``:
    segments whose offsets are all taken from other segments."""

    pieces: list[SegmentOffsets[T]]
    holes: list[MissingOffsets]
    abandoned: list[Candidate[T]]
    superseded: list[Candidate[T]]


def lineage_of(candidates: Iterable[Candidate[T]]) -> Lineage:
    """Returns the lineage by the store alone: that of the segment with the latest epoch and highest end offset."""
    newest = max(
        (found for found in candidates if found.epochs),
        key=lambda found: (found.epochs[-1].epoch, found.end_offset),
        default=None,
    )
    return [] if newest is None else newest.epochs


def live_segments(candidates: Sequence[Candidate[T]], lineage: Lineage, log_start: int = 0) -> LiveSegments[T]:
    """Chooses segments for all offsets of the lineage from ``log_start`` on."""
    usable: list[SegmentOffsets[T]] = []
    abandoned: list[Candidate[T]] = []
    for candidate in candidates:
        ranges = _in_lineage(candidate, lineage)
        if sum(last - first + 1 for first, last in ranges) < candidate.end_offset - candidate.start_offset + 1:
            abandoned.append(candidate)
        usable += [SegmentOffsets(candidate, first, last) for first, last in ranges if last >= log_start]
    pieces, holes = _covering(usable)
    used = {id(piece.candidate) for piece in pieces}
    lost = {id(candidate) for candidate in abandoned}
    live = {id(piece.candidate): piece.candidate for piece in usable}
    superseded = [found for key, found in live.items() if key not in used and key not in lost]
    return LiveSegments(pieces, holes, abandoned, superseded)


def _in_lineage(candidate: Candidate[T], lineage: Lineage) -> list[tuple[int, int]]:
    """Returns the offsets of a segment that were written in the epochs that the lineage has for them."""
    found: list[tuple[int, int]] = []
    for epoch, first, last in epochs_within(candidate.epochs, candidate.start_offset, candidate.end_offset):
        span = _span(lineage, epoch)
        if span is None:
            continue
        first, last = max(first, span[0]), min(last, span[1])
        if first > last:
            continue
        if found and found[-1][1] + 1 == first:
            first = found.pop()[0]
        found.append((first, last))
    return found


def _span(lineage: Lineage, epoch: int) -> tuple[int, int] | None:
    """Returns the offsets that the lineage gives to an epoch, None if it has no such epoch.

    The lineage begins at the log start offset. Lower offsets of a segment across the log start count as part of it:
    they are never read.
    """
    if lineage and epoch < lineage[0].epoch:
        return 0, lineage[0].start_offset - 1
    for number, (entry, following) in enumerate(zip_longest(lineage, lineage[1:])):
        if entry.epoch == epoch:
            return entry.start_offset if number else 0, MAX_OFFSET if following is None else following.start_offset - 1
    return None


def epochs_within(epochs: Lineage, start: int, end: int) -> list[tuple[int, int, int]]:
    """Returns the epochs between two offsets as (epoch, first offset, last offset).

    Offsets below the first entry, which is at the log start offset, count as its epoch.
    """
    found: list[tuple[int, int, int]] = []
    for number, (entry, following) in enumerate(zip_longest(epochs, epochs[1:])):
        first = max(entry.start_offset, start) if number else start
        last = end if following is None else min(following.start_offset - 1, end)
        if first <= last:
            found.append((entry.epoch, first, last))
    return found


def _covering(usable: list[SegmentOffsets[T]]) -> tuple[list[SegmentOffsets[T]], list[MissingOffsets]]:
    """Covers all offsets with as few pieces as possible, each cut to begin where the one before ends."""
    pieces: list[SegmentOffsets[T]] = []
    holes: list[MissingOffsets] = []
    waiting = sorted(usable, key=lambda piece: piece.first, reverse=True)
    open_pieces: list[SegmentOffsets[T]] = []
    offset = waiting[-1].first if waiting else 0
    while waiting or open_pieces:
        while waiting and waiting[-1].first <= offset:
            open_pieces.append(waiting.pop())
        open_pieces = [piece for piece in open_pieces if piece.last >= offset]
        if not open_pieces:
            if waiting:
                holes.append(MissingOffsets(offset, waiting[-1].first - 1))
                offset = waiting[-1].first
            continue
        best = max(open_pieces, key=lambda piece: (piece.last, piece.first == offset, piece.candidate.end_offset))
        pieces.append(best._replace(first=offset))
        offset = best.last + 1
    return pieces, holes
