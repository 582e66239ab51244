"""Splits segments whose offsets overflow the 32-bit index. The log cleaner of old releases left such segments
(KAFKA-6264).
"""

from collections.abc import Iterator
from dataclasses import replace

from kseg.recovery.salvage.parts import Parts
from kseg.recovery.salvage.segment_contents import ROOM, Cuts, Stray
from kseg.recovery.salvage.segment_draft import SegmentDraft

_LEAST_BATCHES = 2
"""Least number of batches that make a segment; a single one may have a wrong offset."""


def overflow(draft: SegmentDraft, next_base: int | None) -> list[SegmentDraft]:
    """Removes the batches that overflow the segment's index from its strays. Returns the segments made of them.

    These batches come after all that are in their places, and rise. ``next_base``: base offset of the next segment,
    None for the last.
    """
    kept = draft.kept
    if kept.limit < kept.base + ROOM:
        return []
    groups = list(_groups(_tail(draft, next_base), kept.limit, next_base))
    # Without a cleaner nothing explains such distances between offsets.
    if (sum if kept.is_sparse else max)(map(_batches, groups or [[]])) < _LEAST_BATCHES:
        return []
    taken = {id(stray) for group in groups for stray in group}
    kept.strays = [stray for stray in kept.strays if id(stray) not in taken]
    made = [draft]
    for group in groups:
        base = group[0].part.first
        new = replace(
            kept, path="", base=base, limit=_limit(base, next_base), parts=Parts(base), cuts=Cuts(), strays=[],
            has_mended=False, has_shared=False,
        )  # fmt: skip
        made[-1].kept.is_last = False
        made.append(SegmentDraft(new, f"{base:020d}.log"))
        for stray in group:
            made[-1].put(stray.part)
    return made[1:]


def _groups(tail: list[Stray], limit: int, next_base: int | None) -> Iterator[list[Stray]]:
    """Yields groups of strays, one for each new segment; ``limit``: the last offset that fits in the segment before."""
    group: list[Stray] = []
    for stray in tail:
        if stray.part.last > limit:
            if group:
                yield group
            group, limit = [], _limit(stray.part.first, next_base)
        group.append(stray)
    if group:
        yield group


def _batches(group: list[Stray]) -> int:
    return sum(stray.batches for stray in group)


def _limit(base: int, next_base: int | None) -> int:
    return base + ROOM if next_base is None else min(next_base - 1, base + ROOM)


def _tail(draft: SegmentDraft, next_base: int | None) -> list[Stray]:
    kept, found = draft.kept, list[Stray]()
    last = kept.parts[len(kept.parts) - 1] if len(kept.parts) else None
    position, offset = (last.end, kept.limit) if last else (0, kept.limit)
    for stray in kept.strays:
        part = stray.part
        is_beyond = (
            part.start >= position and stray.expected < 0 and offset < part.first <= part.last < part.first + ROOM
        )
        if is_beyond and (next_base is None or part.last < next_base):
            found.append(stray)
            offset = part.last
    return found
