"""Collects the offsets that the files of a partition claim, and chooses between batches that claim the same ones."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from kseg.formats.record_batch import HEADER_BYTES
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_COUNT, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be32
from kseg.recovery.broker.epoch_cache import LeaderEpochs
from kseg.recovery.salvage.interval_scheduling import OffsetInterval, cut_at_conflicts, schedule
from kseg.recovery.salvage.parts import BATCH_WEIGHT, SalvagedBatches, batches_of, leading_bytes
from kseg.recovery.salvage.segment_contents import EXCESS_OFFSETS, MisplacedRun, SegmentContents
from kseg.recovery.salvage.segment_sources import SegmentSource
from kseg.segment.files import LAST_OFFSET
from kseg.segment.writer import LARGEST_DELTA
from kseg.stores.source import open_source

_CONTINUES, _IS_NAMED, _EPOCH_AGREES = 4, 2, 1
"""Preferences between batches that claim the same offsets and have equal numbers of records: the batch is not loose;
the file's name is the offset of its first batch; leader-epoch-checkpoint has the batch's epoch at its offset."""


def is_plain(kept: SegmentContents, run: MisplacedRun) -> bool:
    """Whether no evidence contradicts the offsets of a misplaced run. A batch that exactly fills the gap between its
    neighbours in the file is in its place, whatever its offset says, unless it continues the segment before."""
    part = run.part
    if run.expected >= 0 or run.doubt or not 0 <= part.first <= part.last <= part.first + LARGEST_DELTA * run.batches:
        return False
    if run.batches > 1 or kept.base < 0 or run.continues:
        return True
    i = kept.parts.at_position(part.start)
    start = kept.parts[i].last + 1 if i >= 0 else kept.base
    stop = kept.parts[i + 1].first if i + 1 < len(kept.parts) else kept.limit + 1
    is_exact = stop - start == part.last - part.first + 1 and (not kept.is_last or i + 1 < len(kept.parts))
    return not is_exact or part.first == start


def mark_continuing(kept: Sequence[SegmentContents]) -> None:
    """Marks the first batches of files that continue the segment before. ``kept``: of files, sorted by name."""
    for before, one in pairwise(kept):
        for run in one.misplaced[:1]:
            ends = before.parts[-1].last if len(before.parts) else -1
            run.continues = run.part.start == 0 and 0 <= ends == run.part.first - 1


def _is_loose(kept: SegmentContents, run: MisplacedRun) -> bool:
    """Whether a misplaced run is loose, as in `OffsetInterval`."""
    parts, part = kept.parts, run.part
    if run.batches > 1 or not len(parts):
        return False
    i = parts.at_position(part.start)
    leads_on = i >= 0 and (parts[i].end, parts[i].last + 1) == (part.start, part.first)
    is_led_from = i + 1 < len(parts) and (parts[i + 1].start, parts[i + 1].first) == (part.end, part.last + 1)
    return not (leads_on or is_led_from)


def _far_offset(kept: Sequence[SegmentContents]) -> int:
    """Returns a limit far above the offsets of batches in their places; a single batch beyond it may have a wrong
    offset."""
    ends = [one.parts[len(one.parts) - 1].last for one in kept if len(one.parts)]
    ends += [run.part.last for one in kept for run in one.misplaced if run.batches > 1]
    return 2 * max(ends, default=LAST_OFFSET)


def _expect_at_base(kept: Sequence[SegmentContents]) -> None:
    """Records that the first batch of a file is expected at the offset in the file's name, if it continues another
    file's batches there, and conflicts with them at its own offset."""
    suspects = [
        (one, run)
        for one in kept
        for run in one.misplaced
        if one.base >= 0 and run.part.start == 0 and run.batches == 1 and is_plain(one, run)
    ]
    ids = {id(run) for _, run in suspects}
    claims = [one.parts[i] for one in kept if suspects for i in range(len(one.parts))]
    claims += [run.part for one in kept for run in one.misplaced if is_plain(one, run) and id(run) not in ids]
    claims.sort(key=lambda part: part.first)
    firsts = [part.first for part in claims]
    reached = list(accumulate((part.last for part in claims), max))

    def is_claimed(first: int, last: int) -> bool:
        i = bisect_right(firsts, last)
        return i > 0 and reached[i - 1] >= first

    for one, run in suspects:
        first, last = run.part.first, run.part.last
        leads_on = is_claimed(one.base - 1, one.base - 1) and not is_claimed(one.base, one.base + last - first)
        if leads_on and is_claimed(first, last):
            run.expected = one.base


def _doubt_ends(kept: Sequence[SegmentContents], sources: Sequence[SegmentSource]) -> None:
    """Marks single batches with more offsets than records as doubtful, if a file with the offset after these records in
    its name begins with a batch there."""
    begins = {
        source.base
        for one, source in zip(kept, sources, strict=True)
        if source.is_named and any((p.start, p.first) == (0, source.base) for p in _first_parts(one))
    }
    for one in kept:
        for run in one.misplaced:
            part, behind = run.part, run.part.first + run.records
            is_wide = run.batches == 1 and 0 < run.records and behind <= part.last
            if is_wide and behind in begins and is_plain(one, run) and _is_v2(one.path, part):
                run.doubt = EXCESS_OFFSETS


def _first_parts(kept: SegmentContents) -> list[SalvagedBatches]:
    """Returns parts of a file, including the one at its start."""
    return [*(kept.parts[i] for i in range(min(len(kept.parts), 1))), *(run.part for run in kept.misplaced[:1])]


def _is_v2(path: str, part: SalvagedBatches) -> bool:
    with open_source(path) as source:
        return leading_bytes(source, part, ENTRY_MAGIC + 1)[ENTRY_MAGIC] >= MAGIC_V2


class OffsetClaims:
    """``kept``: the contents of each of the ``sources``; ``epochs``: those of leader-epoch-checkpoint.

    ``chosen``: the kept batches by offset.
    """

    def __init__(self, kept: Sequence[SegmentContents], sources: Sequence[SegmentSource], epochs: LeaderEpochs) -> None:
        self._kept, self._epochs = kept, epochs
        self._repaired: dict[tuple[int, int], SalvagedBatches] = {}
        _expect_at_base(kept)
        _doubt_ends(kept, sources)
        self._far = _far_offset(kept)
        pieces = [piece for number, one in enumerate(kept) for piece in self._pieces(number, one, sources[number])]
        self._all = cut_at_conflicts(pieces, self._batches)
        self.chosen = schedule(self._all)

    def outweighed(self) -> Iterator[OffsetInterval]:
        """Yields the pieces that lose to batches with more records in other files."""
        chosen, stays = self.chosen, set(self.chosen)
        lasts = [piece.last for piece in chosen]
        for piece in self._all:
            if piece in stays:
                continue
            i, rivals = bisect_left(lasts, piece.first), 0
            while i < len(chosen) and chosen[i].first <= piece.last:
                rivals += chosen[i].records * (chosen[i].source != piece.source)
                i += 1
            if rivals > piece.records:
                yield piece

    def firsts(self, piece: OffsetInterval) -> Iterator[int]:
        """Yields the first offsets of the batches of a piece."""
        return (batch.first for batch in self._batches(piece))

    def _pieces(self, number: int, kept: SegmentContents, source: SegmentSource) -> Iterator[OffsetInterval]:
        parts = kept.parts
        batches = [max(weight // BATCH_WEIGHT, 1) for weight in parts.weights]
        found = [(parts[i], parts.records[i], batches[i], False) for i in range(len(parts))]
        plain = [run for run in kept.misplaced if is_plain(kept, run)]
        for run in plain:
            is_far = run.batches == 1 and run.part.first > self._far
            found.append((run.part, run.records, run.batches, is_far or _is_loose(kept, run)))
        is_named = source.is_named and min((part.first for part, *_ in found), default=-1) == source.base
        for part, records, count, is_loose in found:
            if part.head:
                self._repaired[number, part.start] = part
            preference = _CONTINUES * (not is_loose) + _IS_NAMED * is_named
            ends = (part.first, part.last, number, part.start, part.end)
            yield OffsetInterval(*ends, records, count, preference, is_loose)

    def _batches(self, piece: OffsetInterval) -> Iterator[OffsetInterval]:
        plain = SalvagedBatches(piece.start, piece.end, piece.first, piece.last)
        with open_source(self._kept[piece.source].path) as source:
            for batch in batches_of(source, self._repaired.get((piece.source, piece.start), plain)):
                head = leading_bytes(source, batch, HEADER_BYTES)
                records = span = batch.last - batch.first + 1
                preference = piece.preference & (_CONTINUES | _IS_NAMED)
                if head[ENTRY_MAGIC] >= MAGIC_V2:
                    count = be32(head, V2_COUNT)
                    records = count if 0 <= count <= span else span
                    preference += _EPOCH_AGREES * (be32(head, V2_LEADER_EPOCH) == self._epoch_at(batch.first))
                ends = (batch.first, batch.last, piece.source, batch.start, batch.end)
                yield OffsetInterval(*ends, records, 1, preference, piece.is_loose)

    def _epoch_at(self, offset: int) -> int:
        """Returns the leader epoch of an offset by the checkpoint, -1 if unknown."""
        return next((one.epoch for one in reversed(self._epochs.entries) if one.start_offset <= offset), -1)
