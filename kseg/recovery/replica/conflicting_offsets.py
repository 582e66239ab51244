"""Batches that two replicas of a partition have at different offsets: one base offset is wrong.

No checksum covers the base offset of v2. The other replica is believed, unless the batch here continues from a
neighbour and the batch there does not.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import NamedTuple

from kseg.recovery.replica.agreement import Cursor, MissingBatches, Unmatched
from kseg.recovery.salvage.epoch_repair import set_epochs
from kseg.recovery.salvage.header_repair import fingerprint
from kseg.recovery.salvage.parts import Parts, SalvagedBatches, batches_of
from kseg.recovery.salvage.relocation import MAX_SINGLES
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.segment.items import Damage
from kseg.stores.source import open_source


class ConflictingOffset(NamedTuple):
    """A batch ``here`` that the other replica has at another ``first`` offset."""

    here: SalvagedBatches
    first: int


def offsets_of(parts: Iterator[SalvagedBatches], prints: set[bytes]) -> dict[bytes, int]:
    """Returns the first offsets of batches with these fingerprints, without those at several offsets."""
    found: dict[bytes, int] = {}
    several: set[bytes] = set()
    with ExitStack() as stack:
        cursor = Cursor(parts, stack)
        while not cursor.is_at_end:
            mark = fingerprint(cursor.source, cursor.batch)
            if mark in prints:
                several |= {mark} & found.keys()
                found[mark] = cursor.batch.first
            cursor.step()
    return {mark: first for mark, first in found.items() if mark not in several}


def conflicting_offsets(unmatched: list[Unmatched], there: Iterator[SalvagedBatches]) -> list[ConflictingOffset]:
    """Returns single batches between gaps of this replica that the other one has at other offsets."""
    single = [one for one in unmatched if not one.is_joined]
    ours = {mark: batch for mark, batch, is_joined in islice(_marked(single), MAX_SINGLES) if not is_joined}
    known = offsets_of(there, set(ours)) if ours else {}
    return [ConflictingOffset(ours[mark], first) for mark, first in known.items() if first != ours[mark].first]


def offsets_here(unmatched: list[Unmatched], holes: list[MissingBatches]) -> dict[int, int]:
    """Returns the first offset here of each single batch between gaps of the other replica, by its first offset
    there."""
    offered: dict[bytes, int] = {}
    for hole in holes:
        for i, offer in enumerate(hole.offers):
            with open_source(offer.part.path) as source:
                batch = next(batches_of(source, offer.part))
                if batch.size == offer.part.size and not _is_joined(hole, i):
                    offered[fingerprint(source, batch)] = batch.first
    ours = islice(_marked(unmatched), MAX_SINGLES) if offered else ()
    return {offered[mark]: batch.first for mark, batch, is_joined in ours if is_joined and mark in offered}


def _marked(unmatched: list[Unmatched]) -> Iterator[tuple[bytes, SalvagedBatches, bool]]:
    """Yields each batch with its fingerprint, and whether it continues a neighbour without a gap."""
    for one in unmatched:
        with open_source(one.part.path) as source:
            for batch in batches_of(source, one.part):
                yield fingerprint(source, batch), batch, one.is_joined or batch.size < one.part.size


def _is_joined(hole: MissingBatches, i: int) -> bool:
    part = hole.offers[i].part
    before = hole.offers[i - 1].part if i else hole.before and hole.before.part
    behind = hole.offers[i + 1].part if i + 1 < len(hole.offers) else hole.behind and hole.behind.part
    return bool((before and before.last + 1 == part.first) or (behind and part.last + 1 == behind.first))


def remove_batches(drafts: list[SegmentDraft], others: list[SegmentDraft], wrong: list[ConflictingOffset]) -> None:
    """Removes the batches with wrong offsets here from their segments; ``others``: files that make no segment."""
    bases = [draft.contents.base for draft in drafts]
    for one in wrong:
        part = one.here
        draft = drafts[bisect_right(bases, part.first) - 1]
        _remove(draft, part)
        owner = next(found for found in (*drafts, *others) if found.contents.path == part.path)
        text = f"the batch of offsets {part.first} to {part.last} is at {one.first} in the replica"
        owner.contents.cuts.add(Damage("wrong-base-offset", part.start, part.size, text))


def copy_headers(drafts: list[SegmentDraft], heads: dict[int, bytes], epochs: dict[int, int]) -> None:
    """Gives batches the header fields of the other replica, by first offset; see `Agreement`."""
    bases = [draft.contents.base for draft in drafts]
    for first, head in heads.items():
        draft = drafts[bisect_right(bases, first) - 1]
        parts, why = draft.contents.parts, "its header is that of the replica"
        i = parts.last_from(first)
        if i >= 0 and parts[i].first == first:
            parts.repair(i, head, why)
        draft.extra[:] = [part._replace(head=head, why=why) if part.first == first else part for part in draft.extra]
    for draft in drafts:
        mine = {first: epoch for first, epoch in epochs.items() if draft.contents.base <= first <= draft.contents.limit}
        if mine:
            set_epochs(draft, mine)


def _remove(draft: SegmentDraft, batch: SalvagedBatches) -> None:
    kept = draft.contents
    draft.extra[:] = [part for part in draft.extra if part.first != batch.first]
    parts = Parts(kept.base)
    for i, part in enumerate(kept.parts):
        if part.first != batch.first:
            parts.append(part, kept.parts.weights[i], kept.parts.records[i])
    kept.parts = parts
