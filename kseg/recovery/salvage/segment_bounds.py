"""Determines the segments of a partition from the batches in its files, because a file name alone proves nothing.

A name is right if no batch crosses its offset and the file has most of the kept batches from there on. Later batches in
other files make segments of their own, which begin at their first batches; scattered batches are added to the segment
before them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from kseg.recovery.salvage.interval_scheduling import OffsetInterval
from kseg.recovery.salvage.segment_sources import SegmentSource


class SegmentBounds(NamedTuple):
    """A segment from ``base`` to the next base offset ``behind``, None for the last. ``source``: the number of the file
    that it is made of, None for a new one."""

    base: int
    source: int | None
    behind: int | None = None


class _Name(NamedTuple):
    """The base offset in the name of a source."""

    base: int
    source: int


def bounds_by_name(sources: Sequence[SegmentSource]) -> list[SegmentBounds]:
    """Returns the segments by the file names."""
    return _rising(SegmentBounds(*name) for name in _names(sources))


def segment_bounds(chosen: Sequence[OffsetInterval], sources: Sequence[SegmentSource]) -> list[SegmentBounds]:
    """Returns the segments, sorted. ``chosen``: all kept batches by offset."""
    names = _names(sources)
    own_names = {name.source: name.base for name in names}
    firm = [
        piece
        for piece in chosen
        if not piece.is_loose
        or _is_below_all(piece, names)
        or piece.first < own_names.get(piece.source, -1) <= piece.last  # no other segment could hold it
    ]
    names = [name for name in names if _may_be_right(name, firm, chosen)]
    bases: dict[int, int] = {}  # by source
    idle: list[_Name] = []
    rest: list[tuple[_Name | None, list[OffsetInterval]]] = []
    for name, pieces in _between(names, firm):
        held = 0 if name is None else _held_by(name.source, pieces)
        if name is not None and held:
            bases[name.source] = name.base
        elif name is not None and not pieces:
            idle.append(name)
        for number, (_, same) in enumerate(groupby(pieces[held:], key=lambda piece: piece.source)):
            rest.append((None if held or number else name, list(same)))
    main: dict[int, int] = {}
    for number, (_, group) in enumerate(rest):
        source = group[0].source
        if source not in bases and (source not in main or _records(group) > _records(rest[main[source]][1])):
            main[source] = number
    found = []
    for number, (name, group) in enumerate(rest):
        source = group[0].source
        if main.get(source) == number:
            bases[source] = _base(sources[source], group[0], firm) if name is None else name.base
        elif name is not None:
            found.append(SegmentBounds(name.base, None))
    found += [SegmentBounds(base, source) for source, base in bases.items()]
    found += [SegmentBounds(*name) for name in idle if name.source not in bases]
    if firm and firm[0].first < min(bounds.base for bounds in found):
        found.append(SegmentBounds(firm[0].first, None))
    return _rising(found)


def _names(sources: Sequence[SegmentSource]) -> list[_Name]:
    named = enumerate(sources)
    return sorted(_Name(source.base, n) for n, source in named if source.is_named and source.base is not None)


def _rising(bounds: Iterable[SegmentBounds]) -> list[SegmentBounds]:
    found = sorted(bounds, key=lambda one: one.base)
    ends = [*(one.base for one in found), None][1:]
    return [one._replace(behind=behind) for one, behind in zip(found, ends, strict=True)]


def _is_below_all(piece: OffsetInterval, names: Sequence[_Name]) -> bool:
    """Whether a batch of the first file is below the offset in its name: then no other segment could contain it."""
    return bool(names) and piece.source == names[0].source and piece.first < names[0].base


def _may_be_right(name: _Name, firm: Sequence[OffsetInterval], chosen: Sequence[OffsetInterval]) -> bool:
    """Whether no batch crosses the offset in a name. If no batch of the file is kept: and no other file is on both
    sides of it."""
    i = bisect_left(firm, name.base, key=lambda piece: piece.first)
    around = firm[i - 1 : i + 1] if 0 < i < len(firm) else ()
    is_same = any(before.source == behind.source for before, behind in pairwise(around))
    is_joined = any((one.last + 1, one.end) == (two.first, two.start) for one, two in pairwise(around))
    if _lies_inside(name.base, firm) or (is_same and is_joined):
        return False
    if any(piece.source == name.source for piece in firm):
        return True
    return not is_same and not _lies_inside(name.base, chosen)


def _lies_inside(offset: int, pieces: Sequence[OffsetInterval]) -> bool:
    """Whether an offset is above the first and not above the last offset of a piece."""
    i = bisect_right(pieces, offset, key=lambda piece: piece.first) - 1
    return i >= 0 and pieces[i].first < offset <= pieces[i].last


def _between(
    names: Sequence[_Name], firm: Sequence[OffsetInterval]
) -> Iterable[tuple[_Name | None, Sequence[OffsetInterval]]]:
    """Yields the pieces before the first name, and from each name to the next."""
    starts = [bisect_left(firm, name.base, key=lambda piece: piece.first) for name in names]
    for name, (start, end) in zip([None, *names], pairwise([0, *starts, len(firm)]), strict=True):
        yield name, firm[start:end]


def _held_by(source: int, pieces: Sequence[OffsetInterval]) -> int:
    """Returns how many of the first pieces make a segment of a source: it has at least half of their records, and the
    last piece."""
    own = total = held = 0
    for number, piece in enumerate(pieces, 1):
        total += piece.records
        own += piece.records * (piece.source == source)
        if piece.source == source and 2 * own >= total:
            held = number
    return held


def _records(group: Sequence[OffsetInterval]) -> int:
    return sum(piece.records for piece in group)


def _base(source: SegmentSource, piece: OffsetInterval, firm: Sequence[OffsetInterval]) -> int:
    """Returns the base offset of a segment that begins with the batches of a piece."""
    i = bisect_left(firm, piece.first, key=lambda one: one.first)
    reached = firm[i - 1].last if i else -1
    return source.base if source.base is not None and reached < source.base <= piece.first else piece.first
