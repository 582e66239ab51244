"""Finds the places of strays: intact batches in the wrong segment, with a wrong offset, or stored twice.

The offset that another replica has for a batch comes first. A batch's own offset counts if it fills a gap or continues
the log. Otherwise the gap between its neighbours in the file decides. A batch that fits nowhere is cut out.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from kseg.formats.rows import Scratch
from kseg.recovery.broker.segments import LARGEST_POSITION
from kseg.recovery.salvage.compressed_sets import offsets_inside
from kseg.recovery.salvage.header_repair import fingerprint, only_one_bit_away, with_first_offset
from kseg.recovery.salvage.offset_evidence import OffsetEvidence
from kseg.recovery.salvage.overlap_resolution import is_one_batch
from kseg.recovery.salvage.parts import Part, batch_of, batches_of
from kseg.recovery.salvage.segment_contents import Stray
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.segment.items import Damage
from kseg.stores.source import Source, open_source

MOST_SINGLES = 250_000
"""Limit of the batches of strays that are placed one by one."""


class Relocation:
    """Moves the strays of all segments of a partition into ``drafts``, which are sorted. Strays that do not fit are cut
    out.

    ``others``: files that make no segment; all of their batches are strays. ``load`` reads the parts of an intact
    segment's draft, which are not kept in memory (see `scan_segment`). ``known`` returns the first offsets of batches
    that another replica has, by `fingerprint`. ``evidence``: that of side files.
    """

    def __init__(
        self,
        drafts: list[SegmentDraft],
        others: list[SegmentDraft],
        load: Callable[[SegmentDraft], None],
        known: Callable[[set[bytes]], dict[bytes, int]] = lambda _: {},
        evidence: OffsetEvidence | None = None,
    ) -> None:
        self.drafts = drafts
        self._others = others
        self._bases = [draft.kept.base for draft in drafts]
        self._load = load
        self._known = known
        self._evidence = evidence
        self._left: list[tuple[SegmentDraft, Stray]] = []
        self._singles = 0
        self._scratch = Scratch()

    def run(self) -> None:
        """Places all strays: first long runs, then batches by the other replica's offsets, by their own, and by their
        neighbours'."""
        if not self.drafts:
            return
        pending = [(draft, stray) for draft in (*self.drafts, *self._others) for stray in draft.kept.strays]
        pending.sort(key=lambda item: (-item[1].batches, not item[0].name, item[0].kept.base, item[1].part.start))
        singles: list[tuple[SegmentDraft, Stray]] = []
        for own, stray in pending:
            if stray.batches > 1 and not self._place(own, stray):
                singles += [(own, single) for single in self._split(own, stray)]
        singles += [item for item in pending if item[1].batches == 1]
        singles = self._place_known(singles)
        singles.sort(key=lambda item: item[1].part.first - item[1].part.last)  # those with more offsets first
        placed: list[tuple[SegmentDraft, Stray]] = []
        for own, stray in singles:
            (placed if self._place(own, stray) else self._left).append((own, stray))
        if self._left:
            self._mend({self._fingerprint(*item) for item in placed})

    def _home(self, offset: int) -> SegmentDraft | None:
        i = bisect_right(self._bases, offset) - 1
        if i < 0 or offset > self.drafts[i].kept.limit:
            return None
        self._load(self.drafts[i])
        return self.drafts[i]

    @property
    def _log_end(self) -> int:
        """The offset after the last batch that is in its place."""
        return self.drafts[-1].next_offset  # an empty last segment proves that the log reached its base offset

    def _place(self, own: SegmentDraft, stray: Stray, is_last_try: bool = False, is_sure: bool = False) -> bool:
        """Puts a stray at its own offsets, or leaves it out if they are taken. Returns False if it was neither.

        ``is_sure``: other evidence confirms the offsets.
        """
        part = stray.part
        home = self._home(part.first) if part.first <= part.last else None
        if home is None or part.last > home.kept.limit or home.bytes + part.size > LARGEST_POSITION:
            return False
        if home is not own and home.was_empty and not (is_last_try and not own.name):
            return False
        found = home.around(part.first, part.last)
        if found is None:
            if stray.batches > 1 and home.covers(part.first, part.last):
                self._leave_out(own, stray)
                return True
            return False
        before = home.kept.base - 1 if found[0] is None else found[0]
        behind = found[1] if home.kept.is_last or found[1] is not None else home.kept.limit + 1
        leads_on, is_inside = before + 1 == part.first, behind is not None
        fills = leads_on and part.last + 1 == behind
        is_sure = (
            is_sure
            or fills
            or (leads_on and not is_inside)
            or (is_inside and not self._is_expected_elsewhere(own, stray))
        )
        if home is not own and not (fills or is_last_try) and self._fits_between_neighbours(own, stray):
            return False
        if not is_sure and is_last_try:
            is_sure = is_inside or leads_on or 2 * self._log_end - self._bases[0] >= part.first
        if is_sure:
            home.put(part._replace(path="") if home is own else part)
        return is_sure

    def _fits_between_neighbours(self, own: SegmentDraft, stray: Stray) -> bool:
        """Whether a single batch exactly fills the gap between its neighbours in its file."""
        parts, part = own.parts, stray.part
        i = parts.at_position(part.start)
        if stray.batches > 1 or i < 0 or i + 1 >= len(parts):
            return False
        first, last = parts[i].last + 1, parts[i + 1].first - 1
        is_beside = parts[i].end == part.start and parts[i + 1].start == part.end
        return is_beside and last - first == part.last - part.first and own.around(first, last) is not None

    def _is_expected_elsewhere(self, own: SegmentDraft, stray: Stray) -> bool:
        """Whether the offsets that its neighbours in the file suggest are free."""
        first, part = stray.expected, stray.part
        return first >= 0 and own.around(first, first + part.last - part.first) is not None

    def _place_known(self, strays: list[tuple[SegmentDraft, Stray]]) -> list[tuple[SegmentDraft, Stray]]:
        """Puts batches at the offsets that their own records, the other replica or a producer snapshot prove. Returns
        the others."""
        prints: list[bytes] = []
        inside: list[tuple[int, int] | None] = []
        remembered: list[int | None] = []
        for own, stray in strays:
            with open_source(own.kept.path) as source:
                prints.append(fingerprint(source, stray.part))
                inside.append(offsets_inside(source, stray.part))
                remembered.append(self._evidence.proven_offset(source, stray.part) if self._evidence else None)
        known = self._known(set(prints)) if prints else {}
        left = []
        for (own, stray), found, offsets, proven in zip(strays, prints, inside, remembered, strict=True):
            part, told = stray.part, None
            if offsets is None:
                told = known.get(found, proven)
                offsets = None if told is None else (told, told + part.last - part.first)
            if offsets is None:
                left.append((own, stray))
                continue
            first, last = offsets
            home = self._home(first)
            is_free = home is not None and last <= home.kept.limit and home.around(first, last) is not None
            if home is None or not is_free or home.bytes + part.size > LARGEST_POSITION:
                if told is not None and found not in known and home is not None and not self._holds(home, first, found):
                    left.append((own, stray))  # the batch there may be wrong instead
                else:
                    self._leave_out(own, stray)
                continue
            moved = part if offsets == (part.first, part.last) else self._moved(own, part, first, last)
            home.put(moved._replace(path="" if home is own else part.path))
        return left

    def _split(self, own: SegmentDraft, stray: Stray) -> Iterator[Stray]:
        """Yields the batches of a stray as strays."""
        self._singles += stray.batches
        if self._singles > MOST_SINGLES:
            self._leave_out(own, stray, "are too many in the wrong place")
            return
        with open_source(own.kept.path) as source:
            for part in batches_of(source, stray.part):
                yield Stray(part, 1)

    def _leave_out(self, own: SegmentDraft, stray: Stray, why: str = "are kept elsewhere") -> None:
        part = stray.part
        text = f"offsets {part.first} to {part.last} {why}"
        own.kept.cuts.add(Damage("batch-out-of-order", part.start, part.size, text))

    # Places by neighbours

    @staticmethod
    def _fingerprint(own: SegmentDraft, stray: Stray) -> bytes:
        with open_source(own.kept.path) as source:
            return fingerprint(source, stray.part)

    def _mend(self, placed: set[bytes]) -> None:
        """Places the remaining strays by their neighbours. ``placed``: fingerprints of strays already placed."""
        twins = self._twins()
        log_end = self._log_end
        for own, stray in sorted(self._left, key=lambda item: item[1].expected < 0):
            mark = self._fingerprint(own, stray)
            if mark in placed or twins.get(stray.part.first) == mark:
                self._leave_out(own, stray)
                continue
            if stray.doubt:
                own.kept.ambiguous += 1
                self._leave_out(own, stray, stray.doubt)
                continue
            if not own.name:
                if not self._place(own, stray, is_last_try=True):
                    self._leave_out(own, stray, "are those of others, or too far from all")
                continue
            has_neighbours = stray.expected >= 0 or len(own.parts) > 0
            if not has_neighbours and (self._place(own, stray, is_last_try=True) or self._fill_gap(own, stray)):
                continue
            if self._is_of_another_time(own, stray) and self._place(own, stray, is_last_try=True, is_sure=True):
                continue
            first = stray.expected if stray.expected >= 0 else self._first_by_neighbours(own, stray, log_end)
            last = first + stray.part.last - stray.part.first
            if own.kept.base <= first <= last <= own.kept.limit and own.around(first, last) is not None:
                own.put(self._moved(own, stray.part, first, last))
            elif not (self._place(own, stray, is_last_try=True) or self._displace(own, stray)):
                self._leave_out(own, stray, "belong to no place that is left")

    def _displace(self, own: SegmentDraft, stray: Stray) -> bool:
        """Puts a batch at its own offsets and moves the batch that overlaps them next to it, if both together exactly
        fill a gap: no other arrangement fits in a log without gaps."""
        part = stray.part
        home = self._home(part.first)
        if home is None or home.kept.is_sparse or home.bytes + part.size > LARGEST_POSITION:
            return False
        i = home.parts.last_from(part.last)
        if i < 0 or home.parts[i].last < part.first or not is_one_batch(home.parts, i):
            return False
        other = home.parts[i]
        rest = [*home.extra, *(home.parts[k] for k in (i - 1, i + 1) if 0 <= k < len(home.parts))]
        start = max((one.last + 1 for one in rest if one.first < part.first), default=home.kept.base)
        stop = min((one.first for one in rest if one.first >= part.first), default=home.kept.limit + 1)
        room = other.last - other.first + 1
        if stop - start != room + part.last - part.first + 1 or part.first not in (start, start + room):
            return (start, stop) == (part.first, part.last + 1) and self._swap_out(home, own, i, part)
        first = start if part.first > start else part.last + 1
        home.take(i)
        home.put(self._moved(home, other, first, first + room - 1))
        home.put(part._replace(path="") if home is own else part)
        return True

    def _fill_gap(self, own: SegmentDraft, stray: Stray) -> bool:
        """Puts a batch into a gap of exactly its size that its offsets overlap, as the last resort."""
        part, home = stray.part, self._home(stray.part.first)
        if home is None or home is own or home.bytes + part.size > LARGEST_POSITION:
            return False
        for first, last in home.gaps(False):
            if last - first == part.last - part.first and first <= part.last and part.first <= last:
                home.put(self._moved(own, part, first, last)._replace(path=part.path))
                return True
        return False

    def _swap_out(self, home: SegmentDraft, own: SegmentDraft, number: int, part: Part) -> bool:
        """Puts a batch that fills a gap in the place of a smaller one, if the smaller one fills the only gap of its
        size."""
        parts = home.parts
        other = parts[number]
        room = other.last - other.first + 1
        if room == part.last - part.first + 1:
            return False  # the two may be swapped
        home.take(number)
        home.put(placed := part._replace(path="") if home is own else part)
        gaps = [gap for gap in home.gaps(False) if gap[1] - gap[0] + 1 == room]
        if len(gaps) == 1:
            home.put(self._moved(home, other, *gaps[0]))
            return True
        home.take_back(parts, placed)
        return False

    def _is_of_another_time(self, own: SegmentDraft, stray: Stray) -> bool:
        """Whether format and timestamp of a batch, compared with its neighbours in the file, agree with its offset.
        Both are covered by the checksum."""
        part, parts = stray.part, own.parts
        i = parts.at_position(part.start)
        with open_source(own.kept.path) as source:
            if i >= 0 and part.last < parts[i].first:
                return self._is_older(source, part, parts[i])
            if i + 1 < len(parts) and part.first > parts[i + 1].last:
                return self._is_older(source, parts[i + 1], part)
        return False

    def _is_older(self, source: Source, one: Part, other: Part) -> bool:
        """Whether the first batch of a part has an older format or a smaller timestamp than the first batch of
        another."""
        a, b = (batch_of(source, next(batches_of(source, part)), self._scratch) for part in (one, other))
        if min(a.max_timestamp, b.max_timestamp) < 0:
            return a.magic < b.magic
        return a.max_timestamp < b.max_timestamp

    def _moved(self, own: SegmentDraft, part: Part, first: int, last: int) -> Part:
        with open_source(own.kept.path) as source:
            head = part.head or bytes(source.buffer[part.start : part.start + 17])
            head = with_first_offset(head.ljust(17, b"\0"), first, last) + part.head[8:]
        return Part(part.start, part.end, first, last, head, f"its first offset was {part.first}")

    def _first_by_neighbours(self, own: SegmentDraft, stray: Stray, log_end: int) -> int:
        """Returns the first offset by the batches before and after it in the file; -1 if uncertain."""
        parts, part, kept = own.parts, stray.part, own.kept
        room = part.last - part.first + 1
        i = parts.at_position(part.start)
        before = parts[i] if i >= 0 else None
        behind = parts[i + 1] if i + 1 < len(parts) else None
        start = before.last + 1 if before else kept.base
        stop = behind.first if behind else log_end if kept.is_last else kept.limit + 1
        if stop - start == room:
            return start
        if kept.is_sparse and room > 0 and self._is_impossible(part):
            return self._first_by_evidence(own, part, start - 1, stop)
        if kept.is_sparse or room < 1:
            return -1
        if (before.end if before else 0) == part.start and (start + room <= stop or (kept.is_last and not behind)):
            return start
        if behind and behind.start == part.end and stop - room >= start:
            return stop - room
        return -1

    def _is_impossible(self, part: Part) -> bool:
        """Whether a batch cannot have had its own offset."""
        home = self._home(part.first)
        return home is None or home.was_empty or home.around(part.first, part.last) is None

    def _first_by_evidence(self, own: SegmentDraft, part: Part, low: int, high: int) -> int:
        """Returns the first offset between ``low`` and ``high`` by side files, or the only one that is one bit away;
        else -1."""
        with open_source(own.kept.path) as source:
            told = self._evidence.indicated_offset(source, part) if self._evidence else None
            if told is not None and low < told and told + part.last - part.first < high:
                return told
            return only_one_bit_away(source, part, low, high)

    @staticmethod
    def _holds(home: SegmentDraft, first: int, mark: bytes) -> bool:
        """Whether the batch with a `fingerprint` is in its place at an offset."""
        for part in home.holders([first]):
            with open_source(part.path or home.kept.path) as source:
                return any(one.first == first and fingerprint(source, one) == mark for one in batches_of(source, part))
        return False

    def _twins(self) -> dict[int, bytes]:
        """Returns the fingerprints of the placed batches at the first offsets of the remaining strays."""
        wanted: dict[int, set[int]] = defaultdict(set)
        for _, stray in self._left:
            i = bisect_right(self._bases, stray.part.first) - 1
            if i >= 0:
                wanted[i].add(stray.part.first)
        found: dict[int, bytes] = {}
        for i, offsets in wanted.items():
            draft = self.drafts[i]
            self._load(draft)
            with ExitStack() as stack:
                for part in draft.holders(offsets):
                    source = stack.enter_context(open_source(part.path or draft.kept.path))
                    batches = batches_of(source, part)
                    found |= {batch.first: fingerprint(source, batch) for batch in batches if batch.first in offsets}
                    stack.close()
        return found
