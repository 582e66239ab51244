"""Which batches of a damaged segment are kept: all that are intact, each once, in the order of their offsets."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise

from kseg.formats.rows import Scratch, int64s
from kseg.kernel import chain
from kseg.kernel.native import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
    be32,
    be64,
)
from kseg.recovery.layout import Layout, Part
from kseg.recovery.mending import with_right_length, with_right_magic
from kseg.segment.chains import fresh_chain
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.source import Source
from kseg.segment.survey import FULL, Headers, SegmentSurvey

_ROOM = 0x7FFFFFFF


@dataclass(slots=True)
class Kept:
    """A layout, what is not in it (ranges of the damaged file with the reason), and offsets missing between parts."""

    layout: Layout
    cuts: list[Damage] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)


def keep(source: Source, base: int, next_base: int | None, scratch: Scratch, jobs: int = 1) -> Kept:
    """Reads a segment. ``next_base``: base offset of the segment behind it, beyond which no batch belongs here."""
    finder = _Finder(source, base, next_base)
    reader = SegmentReader(source, False, base, scratch=scratch, manner=SegmentSurvey.manner(FULL))
    for item in SegmentSurvey(reader, FULL, jobs):
        if isinstance(item, Damage):
            finder.damage(item)
        elif isinstance(item, Headers):
            finder.headers(item)
    chosen = _chosen(finder.parts)
    cuts = sorted(finder.cuts + _left_out(finder.parts, chosen), key=lambda cut: cut.position)
    gaps = [(a.last + 1, b.first - 1) for a, b in pairwise(chosen) if b.first > a.last + 1]
    if chosen and chosen[0].first > base:
        gaps.insert(0, (base, chosen[0].first - 1))
    return Kept(Layout(tuple(chosen)), cuts, gaps)


class _Finder:
    """Cuts a segment into parts of rising offsets and takes out what is not intact."""

    def __init__(self, source: Source, base: int, next_base: int | None) -> None:
        self._source = source
        self._base = base
        self._limit = base + _ROOM if next_base is None else min(next_base - 1, base + _ROOM)
        self.parts: list[Part] = []
        self.cuts: list[Damage] = []
        self._state = fresh_chain(base, limit=(1 << 62) - 1)
        self._events = int64s(8192 * chain.EVENT_WIDTH)
        self._is_joined = False

    def damage(self, damage: Damage) -> None:
        self._state[chain.IS_AFTER_DAMAGE] = 1
        self._is_joined = False
        head = with_right_length(self._source, damage)
        if head is None:
            self.cuts.append(damage)
            return
        data = bytes(self._source.buffer[damage.position : damage.position + 61])
        first = be64(data, 0)
        last = first + be32(data, 23) if data[16] == 2 else first
        if data[16] < 2 and data[17] & 7:
            first = self._last + 1  # which only opening it would tell; it ends at `last`
        self._add(Part(damage.position, damage.end, first, last, head, "its length was mended"), damage.message)

    @property
    def _last(self) -> int:
        return self.parts[-1].last if self.parts else self._base - 1

    def _add(self, part: Part, message: str) -> None:
        if not self._base <= part.first <= part.last <= self._limit:
            self.cuts.append(Damage("offset-outside-segment", part.start, part.size, message))
            return
        self.parts.append(part)
        self._state[chain.LAST_OFFSET] = part.last

    def headers(self, headers: Headers) -> None:
        rows, start = headers.rows, 0
        while start < headers.count:
            count = min(headers.count - start, 8192)
            part = rows[start * BATCH_WIDTH : (start + count) * BATCH_WIDTH]
            found = chain.follow(part, count, self._state, self._events)
            breaks = {}
            for i in range(found):
                at = i * chain.EVENT_WIDTH
                kind, row, a, *_ = self._events[at : at + chain.EVENT_WIDTH].tolist()
                if kind in (chain.INVALID, chain.GAP, chain.NOT_RISING, chain.WRONG_OFFSET, chain.OUTSIDE):
                    breaks[row] = (kind, a)
            self._rows(part, count, breaks)
            start += count

    def _rows(self, rows: memoryview, count: int, breaks: "dict[int, tuple[int, int]]") -> None:
        first = 0
        for row in sorted(breaks):
            self._stretch(rows, first, row)
            kind, a = breaks[row]
            if kind in (chain.GAP, chain.NOT_RISING):
                self._is_joined = False
                first = row
                continue
            self._single(rows, row, kind, a)
            self._is_joined = False
            first = row + 1
        self._stretch(rows, first, count)

    def _stretch(self, rows: memoryview, first: int, stop: int) -> None:
        """Rows first to stop, whose offsets rise."""
        if first >= stop:
            return
        at, end = first * BATCH_WIDTH, (stop - 1) * BATCH_WIDTH
        offset, last = rows[at + BATCH_FIRST_OFFSET], rows[end + BATCH_LAST_OFFSET]
        if offset < 0:
            offset = (
                min(self._last + 1, rows[at + BATCH_LAST_OFFSET]) if self._is_joined else rows[at + BATCH_LAST_OFFSET]
            )
        start, stop_position = rows[at + BATCH_POSITION], rows[end + BATCH_POSITION] + rows[end + BATCH_SIZE]
        if last > self._limit and stop - first > 1:  # the last ones may belong behind this segment
            lasts = rows[at + BATCH_LAST_OFFSET : end + BATCH_WIDTH : BATCH_WIDTH].tolist()
            fit = next((i for i, found in enumerate(lasts) if found > self._limit), len(lasts))
            self._stretch(rows, first, first + fit)
            for row in range(first + fit, stop):
                self._single(rows, row, chain.OUTSIDE, 0)
            return
        if self._is_joined and self.parts and not self.parts[-1].head and self.parts[-1].end == start:
            self.parts[-1] = replace(self.parts[-1], end=stop_position, last=last)
        elif self._base <= offset <= last <= self._limit:
            self.parts.append(Part(start, stop_position, offset, last))
        else:
            self._single(rows, first, chain.OUTSIDE, 0)
            return
        self._is_joined = True

    def _single(self, rows: memoryview, row: int, kind: int, expected: int) -> None:
        """A batch with something wrong about it: mended, or cut out."""
        at = row * BATCH_WIDTH
        position, size = rows[at + BATCH_POSITION], rows[at + BATCH_SIZE]
        first, last = rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET]
        if kind == chain.INVALID or not rows[at + BATCH_STATE] & 1:
            head = with_right_magic(self._source, position, size)
            if head is None:
                self.cuts.append(Damage("crc-mismatch", position, size, "the checksum is not that of the bytes"))
                return
            data = bytes(self._source.buffer[position : position + 61])
            first = be64(data, 0)
            part = Part(position, position + size, first, first + be32(data, 23), head, "its magic was mended")
            self._add(part, "a batch with a wrong magic whose offset does not fit either")
            return
        delta = last - first if first >= 0 or kind == chain.WRONG_OFFSET else 0
        where = expected if kind == chain.WRONG_OFFSET else self._last + 1
        fits = where + delta <= self._limit and delta >= 0
        if rows[at + BATCH_MAGIC] == 2 and fits:
            head = where.to_bytes(8, "big")
            self._add(Part(position, position + size, where, where + delta, head, f"its base offset was {first}"), "")
        else:
            text = f"offset {last} does not belong into this segment"
            self.cuts.append(Damage("offset-outside-segment", position, size, text))


def _chosen(parts: list[Part]) -> list[Part]:
    """Parts by offset, none overlapping another, that hold the most offsets; of two alike the larger one."""
    if all(a.last < b.first for a, b in pairwise(parts)):
        return list(parts)
    ordered = sorted(parts, key=lambda part: (part.last, part.start))
    lasts = [part.last for part in ordered]
    best: list[tuple[int, int]] = [(0, 0)]
    before: list[int] = []
    for i, part in enumerate(ordered):
        j = bisect_right(lasts, part.first - 1, 0, i)
        weight = (best[j][0] + part.last - part.first + 1, best[j][1] + part.size)
        before.append(j)
        best.append(max(weight, best[i]))
    chosen, i = [], len(ordered)
    while i > 0:
        if best[i] == best[i - 1]:
            i -= 1
        else:
            chosen.append(ordered[i - 1])
            i = before[i - 1]
    return chosen[::-1]


def _left_out(parts: list[Part], chosen: list[Part]) -> list[Damage]:
    kept = {part.start for part in chosen}
    return [
        Damage("batch-out-of-order", part.start, part.size, f"offsets {part.first} to {part.last} are kept elsewhere")
        for part in parts
        if part.start not in kept
    ]
