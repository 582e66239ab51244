"""What of a segment is intact: parts that are in their places, and strays, of which more has to be known."""

import os
from dataclasses import dataclass, field

from kseg.formats.rows import Scratch, int64s
from kseg.kernel import chain
from kseg.kernel.native import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
)
from kseg.recovery.accepted import AcceptedBatches
from kseg.recovery.mending import offsets_of, with_first_offset, with_right_header, with_right_magic
from kseg.recovery.old_sets import OldSets
from kseg.recovery.parts import Part, Parts
from kseg.recovery.spine import spine
from kseg.segment.chains import fresh_chain
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.source import Source
from kseg.segment.survey import FULL, Headers, SegmentSurvey
from kseg.segment.windows import next_frame

MOST_CUTS = 10_000
"""Ranges that are listed one by one, a segment."""

MOST_STRAYS = 250_000
"""Strays of a segment that are looked at; some 300 bytes each."""

_FEW_BATCHES = 3
ROOM = 0x7FFFFFFF
_EVENTS = 8192
_PLAIN_GAPS = 8
"""With more gaps that no damage explains, it is compaction that has left them."""

_MENDED = 100
_NO_EPOCH = -1
_MENDED_WEIGHT = 1
"""Less than that of an intact batch: what damaged the rest of a header may have damaged the offset."""
_UNBROKEN = (_MENDED, 0, 0)
_OFFSETS = (BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET)
_BREAKS = (chain.INVALID, chain.GAP, chain.NOT_RISING, chain.WRONG_OFFSET, chain.OUTSIDE)


@dataclass(slots=True)
class Cuts:
    """Ranges that are not kept: the first ones, and how many ``more``."""

    listed: list[Damage] = field(default_factory=list)
    more: int = 0

    def add(self, damage: Damage) -> None:
        if len(self.listed) < MOST_CUTS:
            self.listed.append(damage)
        else:
            self.more += 1

    def __bool__(self) -> bool:
        return bool(self.listed)


@dataclass(slots=True)
class Stray:
    """Intact ``batches`` that are not where they belong, as it seems. ``expected``: the offset at which the neighbours
    would have it, -1 where they tell nothing."""

    part: Part
    batches: int
    expected: int = -1


@dataclass(slots=True)
class Kept:
    """A segment that may hold offsets ``base`` to ``limit``. ``parts`` rise in the file and in offsets."""

    path: str
    base: int
    limit: int
    is_last: bool
    parts: Parts
    cuts: Cuts
    strays: list[Stray]
    is_sparse: bool
    """Whether offsets are missing for other reasons than damage."""
    has_mended: bool = False
    epochs_fall: bool = False
    """Whether a batch has a lower leader epoch than the one before, or one that is none."""

    @property
    def is_intact(self) -> bool:
        return not (self.cuts or self.strays or self.has_mended)


def keep(source: Source, base: int, next_base: int | None, scratch: Scratch, jobs: int = 1) -> Kept:
    """Reads a segment. ``next_base``: base offset of the segment behind it, None for the last."""
    finder = _Finder(source, base, next_base, scratch)
    reader = SegmentReader(source, False, base, scratch=scratch, manner=SegmentSurvey.manner(FULL))
    for item in SegmentSurvey(reader, FULL, jobs):
        if isinstance(item, Damage):
            finder.damage(item)
        elif isinstance(item, Headers):
            finder.headers(item)
    return finder.finish()


class _Finder:
    """Cuts a segment into parts of rising offsets and takes out what is not intact."""

    def __init__(self, source: Source, base: int, next_base: int | None, scratch: Scratch) -> None:
        self._source, self._sets = source, OldSets(source, scratch)
        limit = base + ROOM if next_base is None else min(next_base - 1, base + ROOM)
        self.kept = Kept(os.path.abspath(source.path), base, limit, next_base is None, Parts(base), Cuts(), [], False)
        self._state = fresh_chain(base, limit=(1 << 62) - 1)
        self._events = int64s(_EVENTS * chain.EVENT_WIDTH)
        self._is_joined = False
        self._plain_gaps = 0
        self._last_offset = -1
        self._shift = 0
        """By how much the last part would have to begin earlier to leave no gap before it."""
        self._heads: dict[int, tuple[bytes, str]] = {}
        """New first bytes of batches by position, and why."""

    def damage(self, damage: Damage) -> None:
        self._state[chain.IS_AFTER_DAMAGE] = 1
        self._is_joined = False
        head = with_right_header(self._source, damage)
        if head is None:
            self.kept.cuts.add(damage)
        else:
            self._take_mended(damage.position, damage.length, head, f"{damage.code}: its header was mended")

    def _take_mended(self, position: int, size: int, head: bytes, why: str) -> None:
        """A batch of which all that a checksum covers is intact."""
        whole = head + bytes(self._source.buffer[position + len(head) : position + min(size, 61)])
        first, last = offsets_of(whole)
        if whole[16] < 2 and whole[17] & 7:
            first, last = self._sets.offsets(position, size, whole[16], head)
            head = with_first_offset(whole, first, last) + head[8:]  # those inside are under the checksum
        part = Part(position, position + size, first, last, head, why)
        if self._fits(part):
            self.kept.parts.append(part, _MENDED_WEIGHT)
            self._state[chain.LAST_OFFSET] = max(self._state[chain.LAST_OFFSET], last)
        else:
            self._stray(part)
        self._is_joined = False

    def _fits(self, part: Part) -> bool:
        return self.kept.base <= part.first <= part.last <= self.kept.limit

    def _stray(self, part: Part, batches: int = 1, expected: int = -1) -> None:
        strays = self.kept.strays
        before = strays[-1] if strays else None
        if before and expected < 0 <= part.first and before.expected < 0 and not (part.head or before.part.head):
            if before.part.end == part.start and before.part.last + 1 == part.first:
                before.part = before.part._replace(end=part.end, last=part.last)
                before.batches += batches
                return
        if len(strays) < MOST_STRAYS:
            strays.append(Stray(part._replace(path=self.kept.path), batches, expected))
        else:
            text = f"offsets {part.first} to {part.last} do not belong here"
            self.kept.cuts.add(Damage("batch-out-of-order", part.start, part.size, text))

    def headers(self, headers: Headers) -> None:
        rows, start = headers.rows, 0
        self._heads = self._sets.open(rows, headers.count, self._state[chain.LAST_OFFSET])
        while start < headers.count:
            count = min(headers.count - start, _EVENTS // 4)  # a batch can be the cause of some events
            part = rows[start * BATCH_WIDTH : (start + count) * BATCH_WIDTH]
            self._rows(part, count, self._breaks_of(part, count))
            start += count

    def _breaks_of(self, rows: memoryview, count: int) -> "dict[int, tuple[int, int, int]]":
        """Rows that do not go on from the one before, or are to be mended: kind, and what the chain tells of it."""
        breaks = {}
        for i in range(chain.follow(rows, count, self._state, self._events)):
            at = i * chain.EVENT_WIDTH
            kind, row, a, _, c = self._events[at : at + chain.EVENT_WIDTH].tolist()
            if kind in _BREAKS:
                breaks[row] = (kind, a, c)
            self.kept.epochs_fall |= kind == chain.EPOCH_FALLS
        epochs = rows[BATCH_LEADER_EPOCH : count * BATCH_WIDTH : BATCH_WIDTH].tolist()
        self.kept.epochs_fall |= min(epochs) < _NO_EPOCH
        # The chain forgives a gap that another batch explains; a part has none.
        firsts, lasts = (rows[k : count * BATCH_WIDTH : BATCH_WIDTH].tolist() for k in _OFFSETS)
        for row, first in enumerate(firsts):
            last = lasts[row - 1] if row else self._last_offset
            if first != last + 1 and row not in breaks and (row or self._is_joined):
                breaks[row] = (chain.GAP if first > last else chain.NOT_RISING, last + 1, 1)
        self._last_offset = lasts[-1]
        if self._heads:
            for row, position in enumerate(rows[BATCH_POSITION : count * BATCH_WIDTH : BATCH_WIDTH].tolist()):
                if position in self._heads:
                    breaks[row] = _UNBROKEN
        return breaks

    def _rows(self, rows: memoryview, count: int, breaks: "dict[int, tuple[int, int, int]]") -> None:
        first, is_clean = 0, True
        for row in sorted(breaks):
            self._stretch(rows, first, row, is_clean)
            kind, a, c = breaks[row]
            self._is_joined = False
            if kind == chain.GAP:
                first, is_clean = row, bool(c)  # whether damage lies before it
                self._plain_gaps += not c
                self._shift = 0 if is_clean else rows[row * BATCH_WIDTH + BATCH_FIRST_OFFSET] - a
                continue
            if kind == chain.NOT_RISING:
                first, is_clean = row, self._is_explained(rows[row * BATCH_WIDTH + BATCH_FIRST_OFFSET])
                continue
            self._single(rows, row, kind, a)
            first, is_clean = row + 1, True
        self._stretch(rows, first, count, is_clean)

    def _is_explained(self, first: int) -> bool:
        """Whether a batch overlaps the one before by as much as is missing before that one.

        Then the one before has the wrong offset, and is taken out.
        """
        parts = self.kept.parts
        shift = self._shift
        if self._state[chain.HOLED]:  # a cleaner has left gaps
            return False
        if not shift or not len(parts) or parts.weights[len(parts) - 1] != 2 or parts[len(parts) - 1].head:
            return False
        if parts[len(parts) - 1].last - first + 1 != shift:
            return False
        part = parts.pop()
        self._plain_gaps -= 1
        self._stray(part, 1, part.first - shift)
        return True

    def _stretch(self, rows: memoryview, first: int, stop: int, is_clean: bool) -> None:
        """Rows first to stop, whose offsets go on from one to the next. ``is_clean``: nothing speaks against them."""
        if first >= stop:
            return
        at, end = first * BATCH_WIDTH, (stop - 1) * BATCH_WIDTH
        part = Part(
            rows[at + BATCH_POSITION], rows[end + BATCH_POSITION] + rows[end + BATCH_SIZE],
            rows[at + BATCH_FIRST_OFFSET], rows[end + BATCH_LAST_OFFSET],
        )  # fmt: skip
        if not self._fits(part):
            lasts = rows[at + BATCH_LAST_OFFSET : end + BATCH_WIDTH : BATCH_WIDTH].tolist()
            fit = next((i for i, found in enumerate(lasts) if found > self.kept.limit), len(lasts))
            if 0 < fit < len(lasts):  # the last ones belong behind this segment
                self._stretch(rows, first, first + fit, is_clean)
                self._stretch(rows, first + fit, stop, is_clean)
            else:
                self._stray(part, stop - first)
            self._is_joined = False
            return
        parts = self.kept.parts
        if self._is_joined:
            parts.lengthen(part.end, part.last, 2 * (stop - first))
        else:
            parts.append(part, 2 * (stop - first) + is_clean)
        self._is_joined = True

    def _single(self, rows: memoryview, row: int, kind: int, expected: int) -> None:
        """A batch with something wrong about it."""
        at = row * BATCH_WIDTH
        position, size = rows[at + BATCH_POSITION], rows[at + BATCH_SIZE]
        if not rows[at + BATCH_STATE] & 1 or not 0 <= rows[at + BATCH_MAGIC] <= 2:
            head = with_right_magic(self._source, position, size)
            if head is None:
                length = size if self._goes_on(rows, row, expected) else self._look_inside(position, size, expected)
                text = "the checksum is not that of the bytes"
                self.kept.cuts.add(Damage("crc-mismatch", position, length, text))
            else:
                self._take_mended(position, size, head, "bad-magic: its magic was mended")
            return
        if kind == _MENDED:
            self._take_mended(position, size, *self._heads[position])
            return
        part = Part(position, position + size, rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET])
        is_exact = kind == chain.WRONG_OFFSET and (rows[at + BATCH_MAGIC] == 2 or part.first == part.last)
        self._stray(part, 1, expected if is_exact else -1)

    def _goes_on(self, rows: memoryview, row: int, before: int) -> bool:
        """Whether a broken batch leads from the offset before it to the batch behind it."""
        at, behind = row * BATCH_WIDTH, (row + 1) * BATCH_WIDTH
        return (
            behind < len(rows)
            and rows[at + BATCH_FIRST_OFFSET] == before + 1
            and rows[behind + BATCH_FIRST_OFFSET] == rows[at + BATCH_LAST_OFFSET] + 1
        )

    def _look_inside(self, position: int, size: int, before: int) -> int:
        """Takes intact batches out of a broken one, whose length may be what is wrong; bytes of it before them.

        They lead to its end, which batches in a record of it would not; or almost so where the file ends, and go on
        from the offset before.
        """
        end = position + size
        start = next_frame(self._source.descriptor, position + 1, end)
        if start < 0:
            return size
        accepted = AcceptedBatches(self._source, end, start)
        found = list(accepted)
        if accepted.position != end:
            is_cut = end == self._source.size and sum(headers.count for headers in found) >= _FEW_BATCHES
            if not is_cut or found[0].rows[BATCH_LAST_OFFSET] <= before:
                return size
            tail = (accepted.position, end - accepted.position)
            self.kept.cuts.add(Damage("truncated-batch", *tail, "what is left at the end"))
        for headers in found:
            self._sets.open(headers.rows, headers.count, before)
            for row in range(headers.count):
                parts, first = self.kept.parts, headers.rows[row * BATCH_WIDTH + BATCH_FIRST_OFFSET]
                self._is_joined = self._is_joined and len(parts) > 0 and parts[len(parts) - 1].last + 1 == first
                self._stretch(headers.rows, row, row + 1, True)
        return start - position

    def finish(self) -> Kept:
        """What is in its place, and what is not."""
        kept, state = self.kept, self._state
        kept.is_sparse = state[chain.HOLED] > 0 or self._plain_gaps > _PLAIN_GAPS
        kept.has_mended = kept.parts.special > 0
        chosen = spine(kept.parts)
        if chosen is None:
            return kept
        parts, kept.parts, taken = kept.parts, Parts(kept.base), set(chosen)
        for i, part in enumerate(parts):
            if i in taken:
                kept.parts.append(part, parts.weights[i])
            else:
                self._stray(part, max(parts.weights[i] // 2, 1))
        kept.has_mended = kept.parts.special > 0
        return kept
