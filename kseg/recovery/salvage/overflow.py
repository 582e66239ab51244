"""Splits segments whose offsets overflow the 32-bit index. The log cleaner of old releases left such segments
(KAFKA-6264).
"""

from collections.abc import Iterator
from dataclasses import replace

from kseg.formats.suffixes import LOG
from kseg.recovery.salvage.parts import Parts
from kseg.recovery.salvage.segment_contents import Cuts, MisplacedRun
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.segment.files import segment_stem
from kseg.segment.writer import LARGEST_DELTA

_MIN_BATCHES = 2
"""Least number of batches that make a segment; a single one may have a wrong offset."""


def overflow(draft: SegmentDraft, next_base: int | None) -> list[SegmentDraft]:
    """Removes the batches that overflow the segment's index from its misplaced runs. Returns the segments made of them.

    These batches come after all that are in their places, and rise. ``next_base``: base offset of the next segment,
    None for the last.
    """
    kept = draft.contents
    if kept.limit < kept.base + LARGEST_DELTA:
        return []
    groups = list(_groups(_tail(draft, next_base), kept.limit, next_base))
    # Without a cleaner nothing explains such distances between offsets.
    if (sum if kept.is_sparse else max)(map(_batches, groups or [[]])) < _MIN_BATCHES:
        return []
    taken = {id(run) for group in groups for run in group}
    kept.misplaced = [run for run in kept.misplaced if id(run) not in taken]
    made = [draft]
    for group in groups:
        base = group[0].part.first
        new = replace(
            kept, path="", base=base, limit=_limit(base, next_base), parts=Parts(base), cuts=Cuts(), misplaced=[],
            has_repaired=False, has_shared=False,
        )  # fmt: skip
        made[-1].contents.is_last = False
        made.append(SegmentDraft(new, segment_stem(base) + LOG))
        for run in group:
            made[-1].put(run.part)
    return made[1:]


def _groups(tail: list[MisplacedRun], limit: int, next_base: int | None) -> Iterator[list[MisplacedRun]]:
    """Yields groups of misplaced runs, one for each new segment; ``limit``: the last offset that fits in the segment
    before."""
    group: list[MisplacedRun] = []
    for run in tail:
        if run.part.last > limit:
            if group:
                yield group
            group, limit = [], _limit(run.part.first, next_base)
        group.append(run)
    if group:
        yield group


def _batches(group: list[MisplacedRun]) -> int:
    return sum(run.batches for run in group)


def _limit(base: int, next_base: int | None) -> int:
    return base + LARGEST_DELTA if next_base is None else min(next_base - 1, base + LARGEST_DELTA)


def _tail(draft: SegmentDraft, next_base: int | None) -> list[MisplacedRun]:
    kept, found = draft.contents, list[MisplacedRun]()
    last = kept.parts[len(kept.parts) - 1] if len(kept.parts) else None
    position, offset = (last.end, kept.limit) if last else (0, kept.limit)
    for run in kept.misplaced:
        part = run.part
        is_beyond = (
            part.start >= position
            and run.expected < 0
            and offset < part.first <= part.last < part.first + LARGEST_DELTA
        )
        if is_beyond and (next_base is None or part.last < next_base):
            found.append(run)
            offset = part.last
    return found
