"""Segments whose offsets run over what an index can hold: what lies beyond begins a segment of its own.

Log cleaners of old releases left such segments (KAFKA-6264).
"""

from dataclasses import replace

from kseg.recovery.keeping import ROOM, Cuts, Stray
from kseg.recovery.parts import Parts
from kseg.recovery.placing import Shelf

_LEAST_BATCHES = 2
"""A single one may just as well have a wrong offset."""


def overflow(shelf: Shelf, next_base: int | None) -> list[Shelf]:
    """Takes the batches that no offset index of the segment reaches out of its strays; the segments they make.

    They lie behind all that is in its place, and rise. ``next_base``: of the segment behind, None for the last.
    """
    kept = shelf.kept
    if kept.limit < kept.base + ROOM:
        return []
    tail = _tail(shelf, next_base)
    if sum(stray.batches for stray in tail) < _LEAST_BATCHES:
        return []
    taken = {id(stray) for stray in tail}
    kept.strays = [stray for stray in kept.strays if id(stray) not in taken]
    made = [shelf]
    for stray in tail:
        if stray.part.last > made[-1].kept.limit:
            base = stray.part.first
            limit = base + ROOM if next_base is None else min(next_base - 1, base + ROOM)
            new = replace(
                kept, path="", base=base, limit=limit, parts=Parts(base), cuts=Cuts(), strays=[], has_mended=False
            )
            made[-1].kept.is_last = False
            made.append(Shelf(new, f"{base:020d}.log"))
        made[-1].put(stray.part)
    return made[1:]


def _tail(shelf: Shelf, next_base: int | None) -> list[Stray]:
    kept, found = shelf.kept, list[Stray]()
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
