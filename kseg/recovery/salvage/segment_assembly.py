"""Assembles the segments of a partition from its files.

Each file is read once; if names and contents agree, this is enough. Otherwise the batches of all files are compared
(`offset_claims`), the kept batches determine where segments begin (`segment_bounds`), and a file is read again if its
segment has other bounds than its name says.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kseg.formats.suffixes import LOG
from kseg.recovery.broker.epoch_cache import LeaderEpochs
from kseg.recovery.salvage.offset_claims import OffsetClaims, is_plain, mark_continuing
from kseg.recovery.salvage.overflow import overflow
from kseg.recovery.salvage.parts import Parts
from kseg.recovery.salvage.segment_bounds import SegmentBounds, bounds_by_name, segment_bounds
from kseg.recovery.salvage.segment_contents import Cuts, MisplacedRun, SegmentContents
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.recovery.salvage.segment_sources import SegmentSource, is_of_broker
from kseg.segment.files import segment_stem
from kseg.segment.writer import LARGEST_DELTA

_FEW_PARTS = 1000
"""The parts of an intact segment with more parts are not kept in memory; the file is read again if misplaced runs
belong there."""

_OUTWEIGHED = "are also those of batches in another file, which have more records"

Scan = Callable[[str, int | None, int | None], SegmentContents]
"""Reads a file, given its name, the base offset of its segment (None: it makes none) and that of the next segment."""


class Assembled(NamedTuple):
    """``segments`` are sorted; ``others``: files that make no segment, though their batches may belong to one."""

    segments: list[SegmentDraft]
    others: list[SegmentDraft]


def assemble(sources: Sequence[SegmentSource], scan: Scan, epochs: LeaderEpochs) -> Assembled:
    """Returns the segments. ``sources`` are in the order of `segment_sources`; ``epochs``: those of
    leader-epoch-checkpoint."""

    def read(bounds: SegmentBounds) -> SegmentContents:
        if bounds.source is None:
            return new_segment(bounds.base, bounds.behind)
        return scan(sources[bounds.source].name, bounds.base, bounds.behind)

    by_name = bounds_by_name(sources)
    kept = [read(bounds) for bounds in by_name]
    mark_continuing(kept)
    if len(by_name) == len(sources) and not any(is_plain(one, run) for one in kept for run in one.misplaced):
        return Assembled(_drafts(by_name, kept, sources), [])
    known = dict(zip(by_name, kept, strict=True))
    kept += [scan(source.name, None, None) for source in sources[len(by_name) :]]
    claims = OffsetClaims(kept, sources, epochs)
    bounds = segment_bounds(claims.chosen, sources)
    segments = [known[one] if one in known else read(one) for one in bounds]
    _set_aside(claims, bounds, segments)
    used = {one.source for one in bounds}
    others = [
        SegmentDraft(kept[number] if number >= len(by_name) else scan(source.name, None, None), "", source.name)
        for number, source in enumerate(sources)
        if number not in used and (is_of_broker(source) or kept[number].misplaced)
    ]
    return Assembled(_drafts(bounds, segments, sources), others)


def new_segment(base: int, behind: int | None) -> SegmentContents:
    """Returns a segment without a file; ``behind``: the base offset of the next one, None for the last."""
    limit = base + LARGEST_DELTA if behind is None else min(behind - 1, base + LARGEST_DELTA)
    return SegmentContents("", base, limit, behind is None, Parts(base), Cuts(), [], False)


def _drafts(
    bounds: Iterable[SegmentBounds], kept: Iterable[SegmentContents], sources: Sequence[SegmentSource]
) -> list[SegmentDraft]:
    drafts: list[SegmentDraft] = []
    for one, found in zip(bounds, kept, strict=True):
        name = segment_stem(one.base) + LOG
        drafts.append(SegmentDraft(found, name, name if one.source is None else sources[one.source].name))
        if found.is_intact and len(found.parts) > _FEW_PARTS:
            drafts[-1].release_parts()
        drafts += overflow(drafts[-1], one.behind)
    return drafts


def _set_aside(claims: OffsetClaims, bounds: Sequence[SegmentBounds], segments: Sequence[SegmentContents]) -> None:
    """Adds the batches that lose to those of another file to the misplaced runs."""
    by_source = {one.source: kept for one, kept in zip(bounds, segments, strict=True)}
    firsts: dict[int, set[int]] = {}
    for piece in claims.outweighed():
        if piece.source in by_source:
            firsts.setdefault(piece.source, set()).update(claims.firsts(piece))
    for source, found in firsts.items():
        kept = by_source[source]
        for part in kept.leave_out(found):
            kept.misplaced.append(MisplacedRun(part._replace(path=kept.path), 1, doubt=_OUTWEIGHED))
