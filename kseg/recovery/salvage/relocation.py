"""Moves misplaced runs to their offsets: intact batches in the wrong segment, with a wrong offset, or stored twice.

The offset that another replica has for a batch comes first. A batch's own offset counts if it fills a gap or continues
the log. Otherwise the gap between its neighbours in the file decides. If there is no such gap, the batch is cut out.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_SIZE
from kseg.recovery.broker.segments import LARGEST_POSITION
from kseg.recovery.salvage.header_repair import fingerprint, offsets_inside, only_one_bit_away, with_first_offset
from kseg.recovery.salvage.offset_evidence import OffsetEvidence
from kseg.recovery.salvage.overlap_resolution import is_one_batch
from kseg.recovery.salvage.parts import MisplacedRun, SalvagedBatches, batch_of, batches_of
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.segment.items import Damage
from kseg.stores.source import Source, open_source

MAX_SINGLES = 250_000
"""Limit of the batches in misplaced runs that are placed one by one."""


class Relocation:
    """Moves the misplaced runs of all segments of a partition into ``drafts``, which are sorted. Runs that do not fit
    are cut out.

    ``others``: files that make no segment; all of their batches are in misplaced runs. ``load`` reads the parts of an
    intact segment's draft, which are not kept in memory (see `scan_segment`). ``known`` returns the first offsets of
    batches that another replica has, by `fingerprint`. ``evidence``: that of side files.
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
        self._bases = [draft.contents.base for draft in drafts]
        self._load = load
        self._known = known
        self._evidence = evidence
        self._left: list[tuple[SegmentDraft, MisplacedRun]] = []
        self._singles = 0
        self._scratch = Scratch()

    def run(self) -> None:
        """Places all misplaced runs: first long runs, then batches by the other replica's offsets, by their own, and by
        their neighbours'."""
        if not self.drafts:
            return
        pending = [(draft, run) for draft in (*self.drafts, *self._others) for run in draft.contents.misplaced]
        pending.sort(key=lambda item: (-item[1].batches, not item[0].name, item[0].contents.base, item[1].part.start))
        singles: list[tuple[SegmentDraft, MisplacedRun]] = []
        for own, run in pending:
            if run.batches > 1 and not self._place(own, run):
                singles += [(own, single) for single in self._split(own, run)]
        singles += [item for item in pending if item[1].batches == 1]
        singles = self._place_known(singles)
        singles.sort(key=lambda item: item[1].part.first - item[1].part.last)  # those with more offsets first
        placed: list[tuple[SegmentDraft, MisplacedRun]] = []
        for own, run in singles:
            (placed if self._place(own, run) else self._left).append((own, run))
        if self._left:
            self._place_by_neighbours({self._fingerprint(*item) for item in placed})

    def _segment_of(self, offset: int) -> SegmentDraft | None:
        i = bisect_right(self._bases, offset) - 1
        if i < 0 or offset > self.drafts[i].contents.limit:
            return None
        self._load(self.drafts[i])
        return self.drafts[i]

    @property
    def _log_end(self) -> int:
        """The offset after the last batch that is in its place."""
        return self.drafts[-1].next_offset  # an empty last segment proves that the log reached its base offset

    def _place(self, own: SegmentDraft, run: MisplacedRun, is_last_try: bool = False, is_sure: bool = False) -> bool:
        """Puts a run at its own offsets, or cuts it out if they are taken. Returns False if neither is possible.

        ``is_sure``: other evidence confirms the offsets.
        """
        part = run.part
        home = self._segment_of(part.first) if part.first <= part.last else None
        if home is None or part.last > home.contents.limit or home.size + part.size > LARGEST_POSITION:
            return False
        if home is not own and home.was_empty and not (is_last_try and not own.name):
            return False
        found = home.around(part.first, part.last)
        if found is None:
            if run.batches > 1 and home.covers(part.first, part.last):
                self._cut_out(own, run)
                return True
            return False
        before = home.contents.base - 1 if found[0] is None else found[0]
        behind = found[1] if home.contents.is_last or found[1] is not None else home.contents.limit + 1
        leads_on, is_inside = before + 1 == part.first, behind is not None
        fills = leads_on and part.last + 1 == behind
        is_sure = (
            is_sure
            or fills
            or (leads_on and not is_inside)
            or (is_inside and not self._is_expected_elsewhere(own, run))
        )
        if home is not own and not (fills or is_last_try) and self._fits_between_neighbours(own, run):
            return False
        if not is_sure and is_last_try:
            is_sure = is_inside or leads_on or 2 * self._log_end - self._bases[0] >= part.first
        if is_sure:
            home.put(part._replace(path="") if home is own else part)
        return is_sure

    def _fits_between_neighbours(self, own: SegmentDraft, run: MisplacedRun) -> bool:
        """Whether a single batch exactly fills the gap between its neighbours in its file."""
        parts, part = own.parts, run.part
        i = parts.at_position(part.start)
        if run.batches > 1 or i < 0 or i + 1 >= len(parts):
            return False
        first, last = parts[i].last + 1, parts[i + 1].first - 1
        is_beside = parts[i].end == part.start and parts[i + 1].start == part.end
        return is_beside and last - first == part.last - part.first and own.around(first, last) is not None

    def _is_expected_elsewhere(self, own: SegmentDraft, run: MisplacedRun) -> bool:
        """Whether the offsets that its neighbours in the file suggest are free."""
        first, part = run.expected, run.part
        return first >= 0 and own.around(first, first + part.last - part.first) is not None

    def _place_known(
        self, misplaced: list[tuple[SegmentDraft, MisplacedRun]]
    ) -> list[tuple[SegmentDraft, MisplacedRun]]:
        """Puts batches at the offsets that their own records, the other replica or a producer snapshot prove. Returns
        the others."""
        prints: list[bytes] = []
        inside: list[tuple[int, int] | None] = []
        remembered: list[int | None] = []
        for own, run in misplaced:
            with open_source(own.contents.path) as source:
                prints.append(fingerprint(source, run.part))
                inside.append(offsets_inside(source, run.part))
                remembered.append(self._evidence.proven_offset(source, run.part) if self._evidence else None)
        known = self._known(set(prints)) if prints else {}
        left = []
        for (own, run), found, offsets, proven in zip(misplaced, prints, inside, remembered, strict=True):
            part, known_first = run.part, None
            if offsets is None:
                known_first = known.get(found, proven)
                offsets = None if known_first is None else (known_first, known_first + part.last - part.first)
            if offsets is None:
                left.append((own, run))
                continue
            first, last = offsets
            home = self._segment_of(first)
            is_free = home is not None and last <= home.contents.limit and home.around(first, last) is not None
            if home is None or not is_free or home.size + part.size > LARGEST_POSITION:
                if (
                    known_first is not None
                    and found not in known
                    and home is not None
                    and not self._holds(home, first, found)
                ):
                    left.append((own, run))  # the batch there may be wrong instead
                else:
                    self._cut_out(own, run)
                continue
            moved = part if offsets == (part.first, part.last) else self._moved(own, part, first, last)
            home.put(moved._replace(path="" if home is own else part.path))
        return left

    def _split(self, own: SegmentDraft, run: MisplacedRun) -> Iterator[MisplacedRun]:
        """Yields the batches of a run as runs of one batch."""
        self._singles += run.batches
        if self._singles > MAX_SINGLES:
            self._cut_out(own, run, "are too many in the wrong place")
            return
        with open_source(own.contents.path) as source:
            for part in batches_of(source, run.part):
                yield MisplacedRun(part, 1)

    def _cut_out(self, own: SegmentDraft, run: MisplacedRun, why: str = "are kept elsewhere") -> None:
        part = run.part
        text = f"offsets {part.first} to {part.last} {why}"
        own.contents.cuts.add(Damage("batch-out-of-order", part.start, part.size, text))

    # Offsets by neighbours

    @staticmethod
    def _fingerprint(own: SegmentDraft, run: MisplacedRun) -> bytes:
        with open_source(own.contents.path) as source:
            return fingerprint(source, run.part)

    def _place_by_neighbours(self, placed: set[bytes]) -> None:
        """Places the remaining runs by their neighbours. ``placed``: fingerprints of runs already placed."""
        fingerprints = self._fingerprints_at_firsts()
        log_end = self._log_end
        for own, run in sorted(self._left, key=lambda item: item[1].expected < 0):
            mark = self._fingerprint(own, run)
            if mark in placed or fingerprints.get(run.part.first) == mark:
                self._cut_out(own, run)
                continue
            if run.doubt:
                own.contents.ambiguous += 1
                self._cut_out(own, run, run.doubt)
                continue
            if not own.name:
                if not self._place(own, run, is_last_try=True):
                    self._cut_out(own, run, "are taken, or too far from all others")
                continue
            has_neighbours = run.expected >= 0 or len(own.parts) > 0
            if not has_neighbours and (self._place(own, run, is_last_try=True) or self._fill_gap(own, run)):
                continue
            if self._is_of_another_time(own, run) and self._place(own, run, is_last_try=True, is_sure=True):
                continue
            first = run.expected if run.expected >= 0 else self._first_by_neighbours(own, run, log_end)
            last = first + run.part.last - run.part.first
            if own.contents.base <= first <= last <= own.contents.limit and own.around(first, last) is not None:
                own.put(self._moved(own, run.part, first, last))
            elif not (self._place(own, run, is_last_try=True) or self._displace(own, run)):
                self._cut_out(own, run, "fit in no remaining gap")

    def _displace(self, own: SegmentDraft, run: MisplacedRun) -> bool:
        """Puts a batch at its own offsets and moves the batch that overlaps them next to it, if both together exactly
        fill a gap: no other arrangement fits in a log without gaps."""
        part = run.part
        home = self._segment_of(part.first)
        if home is None or home.contents.is_sparse or home.size + part.size > LARGEST_POSITION:
            return False
        i = home.parts.last_from(part.last)
        if i < 0 or home.parts[i].last < part.first or not is_one_batch(home.parts, i):
            return False
        other = home.parts[i]
        rest = [*home.extra, *(home.parts[k] for k in (i - 1, i + 1) if 0 <= k < len(home.parts))]
        start = max((one.last + 1 for one in rest if one.first < part.first), default=home.contents.base)
        stop = min((one.first for one in rest if one.first >= part.first), default=home.contents.limit + 1)
        count = other.last - other.first + 1
        if stop - start != count + part.last - part.first + 1 or part.first not in (start, start + count):
            return (start, stop) == (part.first, part.last + 1) and self._swap_out(home, own, i, part)
        first = start if part.first > start else part.last + 1
        home.take(i)
        home.put(self._moved(home, other, first, first + count - 1))
        home.put(part._replace(path="") if home is own else part)
        return True

    def _fill_gap(self, own: SegmentDraft, run: MisplacedRun) -> bool:
        """Puts a batch into a gap of exactly its size that its offsets overlap, as the last resort."""
        part, home = run.part, self._segment_of(run.part.first)
        if home is None or home is own or home.size + part.size > LARGEST_POSITION:
            return False
        for first, last in home.gaps(False):
            if last - first == part.last - part.first and first <= part.last and part.first <= last:
                home.put(self._moved(own, part, first, last)._replace(path=part.path))
                return True
        return False

    def _swap_out(self, home: SegmentDraft, own: SegmentDraft, number: int, part: SalvagedBatches) -> bool:
        """Puts a batch that fills a gap in the place of a smaller one, if the smaller one fills the only gap of its
        size."""
        parts = home.parts
        other = parts[number]
        count = other.last - other.first + 1
        if count == part.last - part.first + 1:
            return False  # the two may be swapped
        home.take(number)
        home.put(placed := part._replace(path="") if home is own else part)
        gaps = [gap for gap in home.gaps(False) if gap[1] - gap[0] + 1 == count]
        if len(gaps) == 1:
            home.put(self._moved(home, other, *gaps[0]))
            return True
        home.take_back(parts, placed)
        return False

    def _is_of_another_time(self, own: SegmentDraft, run: MisplacedRun) -> bool:
        """Whether format and timestamp of a batch, compared with its neighbours in the file, agree with its offset.
        Both are covered by the checksum."""
        part, parts = run.part, own.parts
        i = parts.at_position(part.start)
        with open_source(own.contents.path) as source:
            if i >= 0 and part.last < parts[i].first:
                return self._is_older(source, part, parts[i])
            if i + 1 < len(parts) and part.first > parts[i + 1].last:
                return self._is_older(source, parts[i + 1], part)
        return False

    def _is_older(self, source: Source, one: SalvagedBatches, other: SalvagedBatches) -> bool:
        """Whether the first batch of a part has an older format or a smaller timestamp than the first batch of
        another."""
        a, b = (batch_of(source, next(batches_of(source, part)), self._scratch) for part in (one, other))
        if min(a.max_timestamp, b.max_timestamp) < 0:
            return a.magic < b.magic
        return a.max_timestamp < b.max_timestamp

    def _moved(self, own: SegmentDraft, part: SalvagedBatches, first: int, last: int) -> SalvagedBatches:
        with open_source(own.contents.path) as source:
            head = part.head or bytes(source.buffer[part.start : part.start + ENTRY_MAGIC + 1])
            head = with_first_offset(head.ljust(ENTRY_MAGIC + 1, b"\0"), first, last) + part.head[ENTRY_SIZE:]
        return SalvagedBatches(part.start, part.end, first, last, head, f"its first offset was {part.first}")

    def _first_by_neighbours(self, own: SegmentDraft, run: MisplacedRun, log_end: int) -> int:
        """Returns the first offset by the batches before and after it in the file; -1 if uncertain."""
        parts, part, kept = own.parts, run.part, own.contents
        count = part.last - part.first + 1
        i = parts.at_position(part.start)
        before = parts[i] if i >= 0 else None
        behind = parts[i + 1] if i + 1 < len(parts) else None
        start = before.last + 1 if before else kept.base
        stop = behind.first if behind else log_end if kept.is_last else kept.limit + 1
        if stop - start == count:
            return start
        if kept.is_sparse and count > 0 and self._is_impossible(part):
            return self._first_by_evidence(own, part, start - 1, stop)
        if kept.is_sparse or count < 1:
            return -1
        if (before.end if before else 0) == part.start and (start + count <= stop or (kept.is_last and not behind)):
            return start
        if behind and behind.start == part.end and stop - count >= start:
            return stop - count
        return -1

    def _is_impossible(self, part: SalvagedBatches) -> bool:
        """Whether a batch cannot have had its own offset."""
        home = self._segment_of(part.first)
        return home is None or home.was_empty or home.around(part.first, part.last) is None

    def _first_by_evidence(self, own: SegmentDraft, part: SalvagedBatches, low: int, high: int) -> int:
        """Returns the first offset between ``low`` and ``high`` by side files, or the only one that is one bit away;
        else -1."""
        with open_source(own.contents.path) as source:
            known_first = self._evidence.indicated_offset(source, part) if self._evidence else None
            if known_first is not None and low < known_first and known_first + part.last - part.first < high:
                return known_first
            return only_one_bit_away(source, part, low, high)

    @staticmethod
    def _holds(home: SegmentDraft, first: int, mark: bytes) -> bool:
        """Whether the batch with a `fingerprint` is in its place at an offset."""
        for part in home.holders([first]):
            with open_source(part.path or home.contents.path) as source:
                return any(one.first == first and fingerprint(source, one) == mark for one in batches_of(source, part))
        return False

    def _fingerprints_at_firsts(self) -> dict[int, bytes]:
        """Returns the fingerprints of the placed batches at the first offsets of the remaining runs."""
        wanted: dict[int, set[int]] = defaultdict(set)
        for _, run in self._left:
            i = bisect_right(self._bases, run.part.first) - 1
            if i >= 0:
                wanted[i].add(run.part.first)
        found: dict[int, bytes] = {}
        for i, offsets in wanted.items():
            draft = self.drafts[i]
            self._load(draft)
            with ExitStack() as stack:
                for part in draft.holders(offsets):
                    source = stack.enter_context(open_source(part.path or draft.contents.path))
                    batches = batches_of(source, part)
                    found |= {batch.first: fingerprint(source, batch) for batch in batches if batch.first in offsets}
                    stack.close()
        return found
