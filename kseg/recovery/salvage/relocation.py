"""Moves misplaced runs to their offsets: intact batches in the wrong segment, with a wrong offset, or stored twice.

Runs of several batches come first, each as a whole. Single batches follow, by the order of evidence: what proves their
offsets, their own offsets, then the rules that `Relocation.run` lists, of which the first that applies decides.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_SIZE
from kseg.recovery.salvage import header_repair
from kseg.recovery.salvage.header_repair import OffsetEvidence, fingerprint, offsets_inside, with_first_offset
from kseg.recovery.salvage.segment_draft import MisplacedRun, SalvagedBatches, SegmentDraft, batch_of, batches_of
from kseg.stores.source import Source, open_source

MAX_SINGLES = 250_000
"""Limit of the batches in misplaced runs that are placed one by one."""


@dataclass
class Relocation:
    """Moves the misplaced runs of all segments of a partition into ``drafts``, which are sorted. Runs that do not fit
    are cut out.

    ``others``: files that make no segment; all of their batches are in misplaced runs. ``known`` returns the first
    offsets of batches that another replica has, by `fingerprint`. ``evidence``: that of side files.
    """

    drafts: Sequence[SegmentDraft]
    others: Sequence[SegmentDraft]
    known: Callable[[set[bytes]], dict[bytes, int]] = lambda _: {}
    evidence: OffsetEvidence | None = None

    def __post_init__(self) -> None:
        self._bases = [draft.base for draft in self.drafts]
        self._singles = 0
        self._scratch = Scratch()
        self._placed: set[bytes] = set()
        """Fingerprints of single batches that are at their own offsets."""
        self._at_firsts: dict[int, bytes] = {}
        """Fingerprints of the batches that have the first offsets of those left, by offset."""
        self._known_end = 0
        """The log end when only those are left."""

    def run(self) -> None:
        """Places all misplaced runs, or cuts them out."""
        if not self.drafts:
            return
        runs = [run for draft in (*self.drafts, *self.others) for run in draft.misplaced]
        runs.sort(key=lambda run: (-run.batches, not run.own.name, run.own.base, run.part.start))
        singles: list[MisplacedRun] = []
        for run in runs:
            if run.batches > 1 and not self._place(run):
                singles += self._split(run)
        singles = self._place_proven(singles + [run for run in runs if run.batches == 1])
        singles.sort(key=lambda run: run.part.first - run.part.last)  # those with more offsets first
        placed: list[MisplacedRun] = []
        left: list[MisplacedRun] = []
        for run in singles:
            (placed if self._place(run) else left).append(run)
        if not left:
            return
        self._placed = {_fingerprint(run) for run in placed}
        self._at_firsts = self._fingerprints_at_firsts(left)
        # An empty last segment proves that the log reached its base offset.
        self._known_end = self.drafts[-1].next_offset
        # The order of evidence for a single batch whose offsets nothing proves, and which does not fit at its own
        # beyond doubt. A rule places it or cuts it out, and returns True, or leaves it to the next one.
        rules: tuple[Callable[[MisplacedRun], bool], ...] = (
            self._cut_out_copy,
            self._cut_out_doubtful,
            self._place_of_other_file,
            self._place_without_neighbours,
            self._place_by_time,
            self._place_by_neighbours,
            partial(self._place, is_last_try=True),  # its own offsets are free, and not far beyond all others
            self._displace,
        )
        for run in sorted(left, key=lambda run: run.expected < 0):
            if not any(rule(run) for rule in rules):
                self._cut_out(run, "fit in no remaining gap")

    def _cut_out_copy(self, run: MisplacedRun) -> bool:
        """A batch that is stored twice has its place already."""
        mark = _fingerprint(run)
        is_copy = mark in self._placed or self._at_firsts.get(run.part.first) == mark
        if is_copy:
            self._cut_out(run)
        return is_copy

    def _cut_out_doubtful(self, run: MisplacedRun) -> bool:
        """If it is ambiguous which of two batches is right, the other one stays."""
        if run.doubt:
            run.own.ambiguous += 1
            self._cut_out(run, run.doubt)
        return bool(run.doubt)

    def _place_of_other_file(self, run: MisplacedRun) -> bool:
        """In a file that makes no segment neighbours mean nothing: only the batch's own offsets count."""
        if run.own.name:
            return False
        if not self._place(run, is_last_try=True):
            self._cut_out(run, "are taken, or too far from all others")
        return True

    def _place_without_neighbours(self, run: MisplacedRun) -> bool:
        """A batch alone in its file has its own offsets, else a gap of exactly its size that they overlap."""
        if run.expected >= 0 or len(run.own.parts):
            return False
        return self._place(run, is_last_try=True) or self._fill_gap(run)

    def _place_by_time(self, run: MisplacedRun) -> bool:
        """If format and timestamp, which the checksum covers, say that it is older or newer than its neighbours in the
        file, its own offsets are right."""
        part, parts = run.part, run.own.parts
        i = parts.at_position(part.start)
        with open_source(run.own.path) as source:
            is_of_other_time = False
            if i >= 0 and part.last < parts[i].first:
                is_of_other_time = self._is_older(source, part, parts[i])
            elif i + 1 < len(parts) and part.first > parts[i + 1].last:
                is_of_other_time = self._is_older(source, parts[i + 1], part)
        return is_of_other_time and self._place(run, is_last_try=True, is_sure=True)

    def _place_by_neighbours(self, run: MisplacedRun) -> bool:
        """Its neighbours in the file leave a gap for it."""
        own = run.own
        first = run.expected if run.expected >= 0 else self._first_by_neighbours(run)
        last = first + run.part.last - run.part.first
        is_free = own.base <= first <= last <= own.limit and own.around(first, last) is not None
        if is_free:
            own.put(_moved(own, run.part, first, last))
        return is_free

    def _displace(self, run: MisplacedRun) -> bool:
        """It has its own offsets, and the batch that overlaps them moves next to it, if both together exactly fill a
        gap: no other arrangement fits in a log without gaps."""
        part, home = run.part, self._segment_of(run.part.first)
        if home is None or home.is_sparse or not home.has_space(part):
            return False
        i = home.parts.last_from(part.last)
        if i < 0 or home.parts[i].last < part.first or not home.parts.is_one_batch(i):
            return False
        other = home.parts[i]
        rest = [*home.extra, *(home.parts[k] for k in (i - 1, i + 1) if 0 <= k < len(home.parts))]
        start = max((one.last + 1 for one in rest if one.first < part.first), default=home.base)
        stop = min((one.first for one in rest if one.first >= part.first), default=home.limit + 1)
        count = other.last - other.first + 1
        if stop - start != count + part.last - part.first + 1 or part.first not in (start, start + count):
            return (start, stop) == (part.first, part.last + 1) and self._swap_out(home, i, part)
        first = start if part.first > start else part.last + 1
        home.take(i)
        home.put(_moved(home, other, first, first + count - 1))
        home.put(part)
        return True

    # What the rules need

    def _segment_of(self, offset: int) -> SegmentDraft | None:
        i = bisect_right(self._bases, offset) - 1
        return None if i < 0 or offset > self.drafts[i].limit else self.drafts[i]

    def _place(self, run: MisplacedRun, is_last_try: bool = False, is_sure: bool = False) -> bool:
        """Puts a run at its own offsets, or cuts it out if they are taken. Returns False if neither is possible.

        ``is_sure``: other evidence confirms the offsets.
        """
        own, part = run.own, run.part
        home = self._segment_of(part.first) if part.first <= part.last else None
        if home is None or part.last > home.limit or not home.has_space(part):
            return False
        if home is not own and home.was_empty and not (is_last_try and not own.name):
            return False
        found = home.around(part.first, part.last)
        if found is None:
            if run.batches > 1 and home.covers(part.first, part.last):
                self._cut_out(run)
                return True
            return False
        before = home.base - 1 if found[0] is None else found[0]
        behind = found[1] if home.is_last or found[1] is not None else home.limit + 1
        leads_on, is_inside = before + 1 == part.first, behind is not None
        fills = leads_on and part.last + 1 == behind
        expected = (run.expected, run.expected + part.last - part.first)
        is_expected_elsewhere = run.expected >= 0 and own.around(*expected) is not None
        is_sure = is_sure or fills or (not is_expected_elsewhere if is_inside else leads_on)
        if home is not own and not (fills or is_last_try) and self._fits_between_neighbours(run):
            return False
        if not is_sure and is_last_try:
            is_sure = is_inside or leads_on or 2 * self.drafts[-1].next_offset - self._bases[0] >= part.first
        if is_sure:
            home.put(part)
        return is_sure

    def _fits_between_neighbours(self, run: MisplacedRun) -> bool:
        """Whether a single batch exactly fills the gap between its neighbours in its file."""
        own, parts, part = run.own, run.own.parts, run.part
        i = parts.at_position(part.start)
        if run.batches > 1 or i < 0 or i + 1 >= len(parts):
            return False
        first, last = parts[i].last + 1, parts[i + 1].first - 1
        is_beside = parts[i].end == part.start and parts[i + 1].start == part.end
        return is_beside and last - first == part.last - part.first and own.around(first, last) is not None

    def _place_proven(self, runs: list[MisplacedRun]) -> list[MisplacedRun]:
        """Puts batches where their own records, else a replica, else a snapshot prove them. Returns the others."""
        read: list[tuple[MisplacedRun, bytes, tuple[int, int] | None, int | None]] = []
        for run in runs:
            with open_source(run.own.path) as source:
                proven = self.evidence.proven_offset(source, run.part) if self.evidence else None
                read.append((run, fingerprint(source, run.part), offsets_inside(source, run.part), proven))
        known = self.known({mark for _, mark, *_ in read}) if read else {}
        left = []
        for run, mark, offsets, proven in read:
            part, known_first = run.part, None
            if offsets is None:
                known_first = known.get(mark, proven)
                offsets = None if known_first is None else (known_first, known_first + part.last - part.first)
            if offsets is None:
                left.append(run)
                continue
            first, last = offsets
            home, is_remembered = self._segment_of(first), known_first is not None and mark not in known
            is_free = home is not None and last <= home.limit and home.around(first, last) is not None
            if home is not None and is_free and home.has_space(part):
                home.put(part if offsets == (part.first, part.last) else _moved(run.own, part, first, last))
            elif is_remembered and home and _fingerprints(home, [first]).get(first) != mark:
                left.append(run)  # the batch there may be wrong instead
            else:
                self._cut_out(run)
        return left

    def _split(self, run: MisplacedRun) -> Iterator[MisplacedRun]:
        """Yields the batches of a run as runs of one batch."""
        self._singles += run.batches
        if self._singles > MAX_SINGLES:
            self._cut_out(run, "are too many in the wrong place")
            return
        with open_source(run.own.path) as source:
            for part in batches_of(source, run.part):
                yield MisplacedRun(run.own, part, 1)

    def _cut_out(self, run: MisplacedRun, why: str = "are kept elsewhere") -> None:
        part = run.part
        run.own.cut_out("batch-out-of-order", part.start, part.size, f"offsets {part.first} to {part.last} {why}")

    def _fill_gap(self, run: MisplacedRun) -> bool:
        """Puts a batch into a gap of exactly its size that its offsets overlap."""
        part, home = run.part, self._segment_of(run.part.first)
        if home is None or home is run.own or not home.has_space(part):
            return False
        for first, last in home.gaps(False):
            if last - first == part.last - part.first and first <= part.last and part.first <= last:
                home.put(_moved(run.own, part, first, last))
                return True
        return False

    def _swap_out(self, home: SegmentDraft, number: int, part: SalvagedBatches) -> bool:
        """Puts a batch that fills a gap in the place of a smaller one, if that one fills the only gap of its size."""
        other = home.parts[number]
        span = other.last - other.first
        gaps = [gap for gap in home.gaps(False) if gap[1] - gap[0] == span and not part.first <= gap[0] <= part.last]
        if len(gaps) != 1 or span == part.last - part.first:  # if they are of one size, the two may be swapped
            return False
        home.take(number)
        home.put(part)
        home.put(_moved(home, other, *gaps[0]))
        return True

    def _is_older(self, source: Source, one: SalvagedBatches, other: SalvagedBatches) -> bool:
        """Whether a part's first batch has an older format or a smaller timestamp than another part's first batch."""
        a, b = (batch_of(source, next(batches_of(source, part)), self._scratch) for part in (one, other))
        if min(a.max_timestamp, b.max_timestamp) < 0:
            return a.magic < b.magic
        return a.max_timestamp < b.max_timestamp

    def _first_by_neighbours(self, run: MisplacedRun) -> int:
        """Returns the first offset by the batches before and after it in the file; -1 if uncertain."""
        own, parts, part = run.own, run.own.parts, run.part
        count = part.last - part.first + 1
        i = parts.at_position(part.start)
        before = parts[i] if i >= 0 else None
        behind = parts[i + 1] if i + 1 < len(parts) else None
        start = before.last + 1 if before else own.base
        stop = behind.first if behind else self._known_end if own.is_last else own.limit + 1
        if stop - start == count:
            return start
        if own.is_sparse and count > 0:
            home = self._segment_of(part.first)
            if home is None or home.was_empty or home.around(part.first, part.last) is None:  # not at its own offset
                return self._first_by_evidence(run, start - 1, stop)
        if own.is_sparse or count < 1:
            return -1
        if (before.end if before else 0) == part.start and (start + count <= stop or (own.is_last and not behind)):
            return start
        if behind and behind.start == part.end and stop - count >= start:
            return stop - count
        return -1

    def _first_by_evidence(self, run: MisplacedRun, low: int, high: int) -> int:
        """Returns the first offset between two others by side files, or the only one that is one bit away; else -1."""
        part = run.part
        with open_source(run.own.path) as source:
            known_first = self.evidence.indicated_offset(source, part) if self.evidence else None
            if known_first is not None and low < known_first and known_first + part.last - part.first < high:
                return known_first
            return header_repair.only_one_bit_away(source, part, low, high)

    def _fingerprints_at_firsts(self, left: list[MisplacedRun]) -> dict[int, bytes]:
        """Returns the fingerprints of the placed batches at the first offsets of the remaining runs."""
        found: dict[int, bytes] = {}
        firsts = sorted(run.part.first for run in left)
        for i, offsets in groupby(firsts, key=lambda first: bisect_right(self._bases, first) - 1):
            if i >= 0:
                found |= _fingerprints(self.drafts[i], set(offsets))
        return found


def _fingerprint(run: MisplacedRun) -> bytes:
    with open_source(run.own.path) as source:
        return fingerprint(source, run.part)


def _moved(own: SegmentDraft, part: SalvagedBatches, first: int, last: int) -> SalvagedBatches:
    """Returns a batch of the file of ``own`` at other offsets."""
    with open_source(own.path) as source:
        data = part.leading_bytes(source, ENTRY_MAGIC + 1)
    head = with_first_offset(data, first, last) + part.head[ENTRY_SIZE:]
    return part._replace(first=first, last=last, head=head)


def _fingerprints(draft: SegmentDraft, offsets: Collection[int]) -> dict[int, bytes]:
    """Returns the fingerprints of the batches of a segment that have these first offsets, by offset."""
    found: dict[int, bytes] = {}
    for part in draft.holders(offsets):
        with open_source(part.path or draft.path) as source:
            batches = batches_of(source, part)
            found |= {batch.first: fingerprint(source, batch) for batch in batches if batch.first in offsets}
    return found
