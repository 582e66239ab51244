"""Scans one file for intact batches: parts in their places, and misplaced runs."""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple

from kseg.findings.table import DROP_UNDECODABLE, KINDS
from kseg.formats.record_batch import ABORT, COMMIT, HEADER_BYTES, KRAFT_VOTERS, LEADER_CHANGE, offsets_of
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.headers import CODEC, CONTROL, ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, LEGACY_FLAGS, MAGIC_V2
from kseg.kernel.layout.rows import be32
from kseg.kernel.scan import headers as chain
from kseg.recovery.broker.producer_state import BadMarkerError, read_marker
from kseg.recovery.broker.segments import AcceptedBatches
from kseg.recovery.salvage import header_repair, segment_draft
from kseg.recovery.salvage.header_repair import CompressedMessages, OffsetEvidence, fingerprint
from kseg.recovery.salvage.segment_draft import MisplacedRun, Parts, SalvagedBatches, SegmentDraft
from kseg.segment.items import Damage, Problem
from kseg.segment.reader import crc_holds
from kseg.segment.survey import DEEP, FULL, BatchProblem, BatchRow, HeaderRows, Item, open_survey
from kseg.stores.place import Place
from kseg.stores.source import Source
from kseg.stores.windows import next_frame


def longest_rising_run(parts: Parts) -> list[int] | None:
    """Returns the numbers of the parts that are in their original places: the heaviest run with rising offsets. None if
    all parts rise.

    Damage that moves nothing preserves the order of the offsets in the file. If batches were moved, copied or given
    other offsets, the smaller number of them is left out.
    """
    if parts.is_rising:
        return None
    lasts: list[int] = []
    best: list[int] = []
    ends: list[int] = []
    before = array("q")
    for i, part in enumerate(parts):
        k = bisect_left(lasts, part.first)
        before.append(ends[k - 1] if k else -1)
        weight = parts.weights[i] + (best[k - 1] if k else 0)
        k = bisect_right(lasts, part.last)
        if k and best[k - 1] >= weight:
            continue
        stop = k
        while stop < len(best) and best[stop] <= weight:
            stop += 1
        if k and lasts[k - 1] == part.last:
            k -= 1
        lasts[k:stop], best[k:stop], ends[k:stop] = [part.last], [weight], [i]
    chosen, i = [], ends[-1]
    while i >= 0:
        chosen.append(i)
        i = before[i]
    return chosen[::-1]


class OverlapResult(NamedTuple):
    """The result for the losing batch. ``expected``: its right first offset if known, else -1; ``doubt``: why it is
    unknown which of the two batches is right, else ""."""

    expected: int = -1
    doubt: str = ""


class _Side(NamedTuple):
    """One of the two batches, and the free range of offsets around it if the other one is right."""

    number: int
    part: SalvagedBatches
    low: int
    high: int


class OverlapResolution:
    """Decides which of two parts with overlapping offsets is right, in a compacted segment.

    Gaps are no sign of damage there, and no checksum covers an offset, so either batch may be wrong. Side files decide.
    Without them, a batch is wrong if it alone is a single bit away from offsets that are free between its neighbours.
    Otherwise it is ambiguous: the batch with more records stays at its offsets, and the other one is cut out.
    """

    def __init__(self, source: Source, draft: SegmentDraft, evidence: OffsetEvidence | None, scratch: Scratch) -> None:
        self._source, self._parts, self._evidence, self._scratch = source, draft.parts, evidence, scratch
        self._base, self._limit = draft.base, draft.limit

    def resolve(self, chosen: list[int], verdicts: dict[int, OverlapResult]) -> dict[int, OverlapResult]:
        """Returns the verdicts on all parts not kept, by number; ``verdicts``: on those that were not chosen."""
        taken, verdicts = list(chosen), dict(verdicts)
        for number in sorted(verdicts):
            rivals = self._rivals(taken, bisect_left(taken, number), self._parts[number])
            if len(rivals) != 1 or not all(self._parts.is_one_batch(one) for one in (number, taken[rivals[0]])):
                continue
            loser, verdict = self._judge(taken, rivals[0], number)
            if loser != number:
                del taken[rivals[0]], verdicts[number]
                insort(taken, number)
            verdicts[loser] = verdict
        return verdicts

    def _rivals(self, taken: list[int], index: int, part: SalvagedBatches) -> list[int]:
        """Returns indexes into ``taken`` of the parts in the way of a part; at most two."""
        before, behind = range(index - 1, -1, -1), range(index, len(taken))
        found = takewhile(lambda at: self._parts[taken[at]].last >= part.first, before)
        others = takewhile(lambda at: self._parts[taken[at]].first <= part.last, behind)
        return [*islice(found, 2), *islice(others, 2)][:2]

    def _judge(self, taken: list[int], at: int, number: int) -> tuple[int, OverlapResult]:
        """Returns the losing part and its verdict. Parts that do not overlap may both be kept, in another order."""
        one, two = self._parts[taken[at]], self._parts[number]
        if one.first > two.last or two.first > one.last:
            return number, OverlapResult()
        if fingerprint(self._source, one) == fingerprint(self._source, two) and one.first == two.first:
            return number, OverlapResult()
        low = self._parts[taken[at - 1]].last if at else self._base - 1
        high = self._parts[taken[at + 1]].first if at + 1 < len(taken) else self._limit + 1
        is_before = taken[at] < number
        stays = _Side(taken[at], one, low if is_before else two.last, two.first if is_before else high)
        other = _Side(number, two, one.last if is_before else low, high if is_before else one.first)
        return self._by_evidence(stays, other) or self._by_bits(stays, other)

    def _by_evidence(self, one: _Side, two: _Side) -> tuple[int, OverlapResult] | None:
        if self._evidence is None:
            return None
        offsets = [self._evidence.indicated_offset(self._source, side.part) for side in (one, two)]
        is_right = [offset == side.part.first for offset, side in zip(offsets, (one, two), strict=True)]
        is_wrong = [
            offset is not None and not right and side.low < offset < side.high - (side.part.last - side.part.first)
            for offset, right, side in zip(offsets, is_right, (one, two), strict=True)
        ]
        for k, side in enumerate((one, two)):
            if (is_right[1 - k] and not is_right[k]) or (is_wrong[k] and not is_wrong[1 - k]):
                offset = offsets[k]
                if offset is None or not is_wrong[k]:
                    offset = header_repair.only_one_bit_away(self._source, side.part, side.low, side.high)
                return side.number, OverlapResult(offset)
        return None

    def _by_bits(self, one: _Side, two: _Side) -> tuple[int, OverlapResult]:
        sides = (one, two)
        firsts = [header_repair.one_bit_away(self._source, side.part, side.low, side.high) for side in sides]
        for k, side in enumerate(sides):
            if firsts[k] and not firsts[1 - k]:
                return side.number, OverlapResult(firsts[k][0] if len(firsts[k]) == 1 else -1)
        # More such offsets mean more ways in which the batch may have been damaged.
        ranks = [(self._records(side.part), -len(found)) for side, found in zip(sides, firsts, strict=True)]
        winner, loser = (one, two) if ranks[0] >= ranks[1] else (two, one)
        part = winner.part
        doubt = (
            f"or {part.first} to {part.last} of the batch at position {part.start} are wrong: which is ambiguous, and "
            "that batch has no fewer records"
        )
        return loser.number, OverlapResult(doubt=doubt)

    def _records(self, part: SalvagedBatches) -> int:
        found = header_repair.reach_of(self._source, part, self._scratch)
        return found[2] if found else 0


UNDECODABLE = frozenset(code for code, kind in KINDS.items() if kind.repair == DROP_UNDECODABLE)
"""Problems of records under a right checksum for which a batch is dropped on request."""

_KEY_SIZE_AT, _KEY_VERSION_AT, _VALUE_SIZE_AT, _VALUE_VERSION_AT = (HEADER_BYTES + i for i in (4, 5, 9, 10))
_KEY_SIZE, _VALUE_SIZE = 8, 12
"""Sizes of a marker's key and value, as zigzag varints: 4 and 6 bytes."""


@dataclass(slots=True)
class BatchFilter:
    """Decides which intact batches of one partition are not kept: those on which no broker starts; with
    ``drops_undecodable``, those with a problem in UNDECODABLE; those that contain one of ``offsets``.

    A broker's loader decodes the first record of a control batch with a producer id (`read_marker`): if it is
    malformed, the broker does not start, or truncates the log. A control batch without a producer id hides its records
    from consumers. The loader also rejects a producer that writes outside of its open transaction: see
    `kseg.recovery.salvage.salvage.Attempt.transaction_conflicts`.

    ``dropped_offsets``: the ``offsets`` found in a batch so far.
    """

    drops_undecodable: bool = False
    offsets: frozenset[int] = frozenset()
    dropped_offsets: set[int] = field(default_factory=set)

    def rejected(
        self, source: Source, headers: HeaderRows, problems: Iterable[BatchProblem], scratch: Scratch
    ) -> dict[int, Problem]:
        """Returns the batches among ``headers`` that are not kept, by row, with the reasons."""
        by_position = dict[int, Problem]()
        if self.drops_undecodable:
            for problem in problems:
                if problem.code in UNDECODABLE:
                    by_position.setdefault(problem.position, Problem(problem.code, f"{problem.message}; dropped"))
        positions = enumerate(headers.positions if by_position else ())
        found = {row: by_position[position] for row, position in positions if position in by_position}
        for row, attributes in enumerate(headers.attributes):
            if attributes & CONTROL and attributes > 0 and row not in found:
                if why := _bad_marker(source, headers[row], scratch):
                    found[row] = Problem("bad-control-record", why)
        for row, (magic, first, last) in enumerate(zip(headers.magics, headers.firsts, headers.lasts, strict=True)):
            if magic >= MAGIC_V2 and last < first:
                text = f"begins at offset {first} and ends at {last}: an index that refuses it empties the segment"
                found.setdefault(row, Problem("batch-out-of-order", text))
        for offset in self.offsets:
            for row, (first, last) in enumerate(zip(headers.firsts, headers.lasts, strict=True)):
                if first <= offset <= last and headers[row].has_right_crc:
                    found[row] = Problem("dropped-batch", f"holds offset {offset}; dropped as asked for")
                    self.dropped_offsets.add(offset)
        return {row: why for row, why in found.items() if headers[row].has_right_crc}


def _bad_marker(source: Source, row: BatchRow, scratch: Scratch) -> str:
    """Returns what is wrong with a control batch, "" for nothing."""
    if row.magic < MAGIC_V2 or row.records == 0:
        return ""
    if row.producer_id < 0:
        is_of_kraft = LEADER_CHANGE <= row.marker <= KRAFT_VOTERS
        return "" if is_of_kraft else "a control batch of no producer: consumers pass over its records"
    data = bytes(source.buffer[row.position : row.end])
    if row.marker in (ABORT, COMMIT) and row.coordinator_epoch >= 0 and len(data) > _VALUE_VERSION_AT:
        # A marker with the sizes that brokers write, and no negative version, is right. A salvage of many small
        # transactions takes 1.5 times as long if each is decoded.
        has_known_sizes = (data[_KEY_SIZE_AT], data[_VALUE_SIZE_AT]) == (_KEY_SIZE, _VALUE_SIZE)
        if has_known_sizes and max(data[_KEY_VERSION_AT], data[_VALUE_VERSION_AT]) < 1 << 7:
            return ""
    try:
        read_marker(data, scratch)
    except BadMarkerError as error:
        return f"a control batch that ends no transaction: {error}: a broker does not load it"
    return ""


MAX_MISPLACED = 250_000
"""Limit of the misplaced runs of a segment, of about 300 bytes each."""

_FEW_BATCHES = 3
_OLD_BYTES, _V2_BYTES = 26, HEADER_BYTES
"""Sizes of the smallest v0 or v1 message and the smallest v2 batch."""
_MAX_SHARED_BYTES = 8
"""Bytes that two batches may share: leading zeros of an offset."""
_FEWEST_ROWS, _MOST_ROWS = 1024, 1280
"""Rows that the chain follows at once, except before damage."""
_EVENTS = _MOST_ROWS * chain.KINDS
"""No event is lost, whatever is wrong with each batch."""
_PLAIN_GAPS = 8
"""With more gaps that damage does not explain, the log was compacted."""

_REPAIRED, _REJECTED = 100, 101
"""Kinds of breaks besides those of `kseg.kernel.scan.headers`: a batch with a repaired header, and a rejected one."""
_TO_REPAIR, _TO_REJECT = (_REPAIRED, 0, 0), (_REJECTED, 0, 0)
_REPAIRED_WEIGHT = 1
"""Weight of a batch with a repaired header, less than an intact one's: its offset may be damaged, too."""
_BREAKS = (chain.INVALID, chain.GAP, chain.NOT_RISING, chain.WRONG_OFFSET, chain.OUTSIDE)


def scan_segment(
    source: Source,
    base: int | None,
    next_base: int | None,
    scratch: Scratch,
    jobs: int = 1,
    evidence: OffsetEvidence | None = None,
    batch_filter: BatchFilter | None = None,
) -> SegmentDraft:
    """Reads a file. ``base``: base offset of its segment; None if it makes none, then all batches are in misplaced
    runs; ``next_base``: base offset of the next segment, None for the last."""
    level = DEEP if batch_filter and batch_filter.drops_undecodable else FULL
    for is_compacted in (False, True):
        survey = open_survey(source.path, level, jobs=jobs, scratch=scratch, source=source, base_offset=base)
        draft = SegmentDraft(Place(source.path).absolute, base, next_base)
        scan = _Scan(source, draft, scratch, evidence, is_compacted)
        for item, problems in _with_problems(survey):
            if isinstance(item, Damage):
                scan.damage(item)
            else:
                scan.headers(item, batch_filter.rejected(source, item, problems, scratch) if batch_filter else {})
        scan.follow_all()
        if not scan.took_gaps_for_damage or not scan.has_compacted_batches:
            break
    return scan.finish()


def _with_problems(items: Iterable[Item]) -> Iterator[tuple[Damage | HeaderRows, list[BatchProblem]]]:
    """Yields damage and headers, each with the problems that follow it."""
    held: Damage | HeaderRows | None = None
    problems: list[BatchProblem] = []
    for item in items:
        if isinstance(item, BatchProblem):
            problems.append(item)
            continue
        if held is not None:
            yield held, problems
        held, problems = item, []
    if held is not None:
        yield held, problems


class _Scan:
    """Divides a segment into parts with rising offsets and cuts out damaged ranges."""

    def __init__(
        self, source: Source, draft: SegmentDraft, scratch: Scratch, evidence: OffsetEvidence | None, is_compacted: bool
    ) -> None:
        """``draft``: a new one; ``is_compacted``: the segment is known to have compacted batches."""
        self._source, self._compressed = source, CompressedMessages(source, scratch)
        self._behind = source.behind_proven()
        """For damaged bytes and what is next to them."""
        self._scratch, self._evidence = scratch, evidence
        self._remembered = evidence.remembered if evidence else frozenset()
        self._known: list[int] = []
        """Positions of batches that producer snapshots may have an entry for."""
        self._draft = draft
        self._chain = chain.Chain(draft.base, limit=(1 << 62) - 1, rows=int64s(_EVENTS * chain.EVENT_WIDTH))
        self._is_joined = False
        self._is_compacted = is_compacted
        self.took_gaps_for_damage = False
        """Whether a batch was taken to belong into a gap, which holds only for a log that was not compacted."""
        self._plain_gaps = 0
        self._held = HeaderRows(int64s(0), 0)
        """Batches that the chain has not followed yet."""
        self._last_offset: int | None = None
        """Last offset of the adjacent batch that the chain followed last, None if there is none."""
        self._shift = 0
        """Number of missing offsets before the last part."""
        self._rejected: dict[int, Problem] = {}
        """Rejected batches by position."""
        self._heads: dict[int, bytes] = {}
        """Repaired first bytes of batches by position."""

    def damage(self, damage: Damage) -> None:
        self.follow_all()
        self._last_offset = None
        self._chain.is_after_damage = True
        self._is_joined = False
        head = header_repair.with_right_header(self._behind, damage.position, damage.length)
        if head is None:
            self._cut_range(damage)
        else:
            self._add_repaired(damage.position, damage.length, head)

    def _cut_range(self, damage: Damage) -> None:
        """Cuts a range out, except a batch that begins with the last bytes of the range.

        If a batch has lost a few bytes, the leading zeros of the next batch seem to be part of it.
        """
        for position in range(damage.position - 1, max(damage.position - _MAX_SHARED_BYTES, 0) - 1, -1):
            head = bytes(self._behind.buffer[position : min(position + _V2_BYTES, damage.end)])
            if len(head) < _OLD_BYTES or head[ENTRY_MAGIC] > MAGIC_V2:
                continue
            end = position + be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
            least = position + (_V2_BYTES if head[ENTRY_MAGIC] == MAGIC_V2 else _OLD_BYTES)
            if least <= end <= damage.end and crc_holds(self._behind.buffer, position, end):
                first, last = offsets_of(head)
                if head[ENTRY_MAGIC] < MAGIC_V2 and head[LEGACY_FLAGS] & CODEC:
                    first, last = self._compressed.offsets(position, end - position, head[ENTRY_MAGIC])
                self._add_batch(SalvagedBatches(position, end, first, last), segment_draft.BATCH_WEIGHT)
                damage = Damage(damage.code, end, damage.end - end, damage.message)
                self._draft.is_rearranged = True
                break
        if damage.length:
            self._draft.cut_out(damage.code, damage.position, damage.length, damage.message)

    def _add_repaired(self, position: int, size: int, head: bytes) -> None:
        """Adds a batch whose checksum is right."""
        whole = head + bytes(self._behind.buffer[position + len(head) : position + min(size, _V2_BYTES)])
        first, last = offsets_of(whole)
        if whole[ENTRY_MAGIC] < MAGIC_V2 and whole[LEGACY_FLAGS] & CODEC:
            first, last = self._compressed.offsets(position, size, whole[ENTRY_MAGIC], head)
            # The offsets inside are checksummed.
            head = header_repair.with_first_offset(whole, first, last) + head[ENTRY_SIZE:]
        if self._add_batch(SalvagedBatches(position, position + size, first, last, head), _REPAIRED_WEIGHT):
            self._chain.last_offset = max(self._chain.last_offset, last)
        self._is_joined = False

    def _add_batch(self, part: SalvagedBatches, weight: int) -> bool:
        """Adds a single batch, which has a record for each offset. Returns whether it is in its place."""
        fits, records = self._fits(part), part.last - part.first + 1
        if fits:
            self._draft.parts.append(part, weight, records)
        else:
            self._add_misplaced(part, 1, records)
        return fits

    def _fits(self, part: SalvagedBatches) -> bool:
        return self._draft.base <= part.first <= part.last <= self._draft.limit

    def _add_misplaced(
        self, part: SalvagedBatches, batches: int, records: int, expected: int = -1, doubt: str = ""
    ) -> None:
        misplaced = self._draft.misplaced
        before = misplaced[-1] if misplaced and not (doubt or misplaced[-1].doubt) else None
        if before and expected < 0 <= part.first and before.expected < 0 and not (part.head or before.part.head):
            if before.part.end == part.start and before.part.last + 1 == part.first:
                before.part = before.part._replace(end=part.end, last=part.last)
                before.batches += batches
                before.records += records
                return
        if len(misplaced) < MAX_MISPLACED:
            own = self._draft
            misplaced.append(MisplacedRun(own, part._replace(path=own.path), batches, expected, doubt, records))
        else:
            text = f"offsets {part.first} to {part.last} do not belong here"
            self._draft.cut_out("batch-out-of-order", part.start, part.size, text)

    def headers(self, headers: HeaderRows, rejected: dict[int, Problem]) -> None:
        """Adds batches. ``rejected``: the rejected ones, by row."""
        before = self._held[-1].last_offset if self._held.count else self._chain.last_offset
        self._rejected |= {headers[row].position: why for row, why in rejected.items()}
        self._heads |= self._compressed.open(headers, before)
        self._held = self._held.followed_by(headers)
        while stop := self._border():
            self._follow(stop)

    def _border(self) -> int:
        """Returns how many of the held batches to follow now, 0 for none. The batches after them decide nothing about
        the last one: it lies behind the one before it, and the next one behind it."""
        held = self._held
        for stop in range(max(_FEWEST_ROWS, 2), min(_MOST_ROWS, held.count - 1) + 1):
            one, two, three = (held[row] for row in range(stop - 2, stop + 1))
            if one.last_offset < two.first_offset <= two.last_offset < three.first_offset:
                is_right = one.has_right_crc and two.has_right_crc and three.has_right_crc
                if is_right and two.position not in self._heads and two.position not in self._rejected:
                    return stop
        return _MOST_ROWS if held.count > _MOST_ROWS else 0

    def _follow(self, count: int) -> None:
        """Adds the first of the held batches."""
        part, self._held = self._held.part(0, count), self._held.part(count, self._held.count)
        self._rows(part, self._breaks_of(part))
        self._rejected = {position: why for position, why in self._rejected.items() if position >= part.end}
        self._heads = {position: head for position, head in self._heads.items() if position >= part.end}

    def follow_all(self) -> None:
        """Adds the held batches: no batch is adjacent to the last one."""
        if self._held.count:
            self._follow(self._held.count)

    def _breaks_of(self, headers: HeaderRows) -> dict[int, tuple[int, int, int]]:
        """Returns the rows that do not continue the previous one, or need a repair: the chain's kind and values."""
        breaks = {}
        chain.follow(headers.rows, headers.count, self._chain)
        for kind, row, a, _, c in self._chain.written():
            if kind in _BREAKS:
                breaks[row] = (kind, a, c)
            self._draft.epochs_fall |= kind == chain.EPOCH_FALLS
        self._draft.epochs_fall |= min(headers.epochs) < -1
        # The chain accepts a gap that another batch explains; a part has no gaps.
        lasts = headers.lasts
        for row, first in enumerate(headers.firsts):
            last = lasts[row - 1] if row else self._last_offset
            if last is not None and first != last + 1 and row not in breaks:
                breaks[row] = (chain.GAP if first > last else chain.NOT_RISING, last + 1, 1)
        self._last_offset = lasts[-1]
        for found, kind in ((self._heads, _TO_REPAIR), (self._rejected, _TO_REJECT)):
            if found:
                breaks |= {row: kind for row, position in enumerate(headers.positions) if position in found}
        return breaks

    def _rows(self, headers: HeaderRows, breaks: dict[int, tuple[int, int, int]]) -> None:
        first, is_clean = 0, True
        for row, (kind, a, c) in sorted(breaks.items()):
            if kind == chain.NOT_RISING and first < row and self._has_excess_offsets(headers[row - 1], headers[row]):
                self._add_rows(headers.part(first, row - 1), is_clean)
                self._misplace(headers[row - 1], doubt=segment_draft.EXCESS_OFFSETS)
                self._is_joined, first, is_clean, self._shift = False, row, True, 0
                continue
            self._add_rows(headers.part(first, row), is_clean)
            self._is_joined = False
            if kind == chain.GAP:
                first, is_clean = row, bool(c)  # whether damage precedes it
                self._plain_gaps += not c
                self._shift = 0 if is_clean else headers[row].first_offset - a
                continue
            if kind == chain.NOT_RISING or (kind == chain.WRONG_OFFSET and self._is_behind_damage):
                is_explained = self._is_explained(headers[row].first_offset)
                if kind == chain.NOT_RISING or is_explained:
                    first, is_clean, self._shift = row, is_explained, 0
                    continue
            if kind == chain.WRONG_OFFSET and self._is_disputed(headers, row):
                self._add_rows(headers.part(row, row + 1), False)
                self._is_joined = False
            else:
                self._handle_broken(headers, row, kind, a)
            first, is_clean = row + 1, True
        self._add_rows(headers.part(first, headers.count), is_clean)

    def _has_excess_offsets(self, one: BatchRow, behind: BatchRow) -> bool:
        """Whether a v2 batch overlaps the next one, but its records end before that one. In a compacted log the offset
        of the next one must be confirmed: the batch after it follows without a gap."""
        if one.magic < MAGIC_V2 or one.records <= 0 or not one.has_right_crc or one.last_offset < behind.first_offset:
            return False
        if behind.first_offset == one.first_offset + one.records:
            return True
        following = header_repair.reach_at(self._behind, behind.end)
        if following is None or following[0] != behind.last_offset + 1:
            return False
        part = SalvagedBatches(one.position, one.end, one.first_offset, one.last_offset)
        found = header_repair.reach_of(self._source, part, self._scratch)
        return found is not None and found[1] < behind.first_offset

    def _misplace(self, row: BatchRow, expected: int = -1, doubt: str = "") -> None:
        """Adds one batch to the misplaced runs."""
        part = SalvagedBatches(row.position, row.end, row.first_offset, row.last_offset)
        self._add_misplaced(part, 1, _records_in(HeaderRows.of([row])), expected, doubt)

    def _is_disputed(self, headers: HeaderRows, row: int) -> bool:
        """Whether a batch claims offsets of a neighbour. In a compacted log it may be right even if it would exactly
        fill a gap elsewhere (`OverlapResolution`)."""
        one, claims = headers[row], list[tuple[int, int]]()
        if row + 1 < headers.count:
            claims.append((headers[row + 1].first_offset, headers[row + 1].last_offset))
        if len(self._draft.parts):
            claims.append(self._draft.parts[-1][2:4])
        is_claimed = any(one.first_offset <= b and a <= one.last_offset for a, b in claims)
        self.took_gaps_for_damage |= is_claimed and not self.has_compacted_batches
        return is_claimed and self.has_compacted_batches

    @property
    def _is_behind_damage(self) -> bool:
        """Whether a range was cut out after the last part."""
        parts, cuts = self._draft.parts, self._draft.cuts
        return len(parts) > 0 and len(cuts) > 0 and cuts[-1].position >= parts[-1].end

    def _is_explained(self, first: int) -> bool:
        """Whether a batch overlaps the previous one by the number of offsets missing before that one, or by fewer if
        there is damage between the two.

        Then the previous one has a wrong offset, and is removed.
        """
        parts = self._draft.parts
        shift = self._shift
        if self.has_compacted_batches:  # the cleaner has left gaps
            return False
        if not shift or not len(parts) or parts.weights[-1] != segment_draft.BATCH_WEIGHT or parts[-1].head:
            return False
        overlap = parts[-1].last - first + 1
        if overlap > shift or (overlap < shift and not self._is_behind_damage):
            return False
        self.took_gaps_for_damage = True
        records = parts.records[-1]
        part = parts.pop()
        self._plain_gaps -= 1
        self._add_misplaced(part, 1, records, part.first - shift)
        return True

    def _add_rows(self, headers: HeaderRows, is_clean: bool) -> None:
        """Adds batches whose offsets are contiguous. ``is_clean``: they have no problem."""
        if headers.count < 1:
            return
        first, last = headers[0], headers[-1]
        part = SalvagedBatches(first.position, last.end, first.first_offset, last.last_offset)
        if not self._fits(part):
            lasts = headers.lasts
            fit = next((i for i, found in enumerate(lasts) if found > self._draft.limit), len(lasts))
            if 0 < fit < len(lasts):  # the last ones are above the segment's limit
                self._add_rows(headers.part(0, fit), is_clean)
                self._add_rows(headers.part(fit, headers.count), is_clean)
            else:
                self._add_misplaced(part, headers.count, _records_in(headers))
            self._is_joined = False
            return
        parts, records, weight = self._draft.parts, _records_in(headers), segment_draft.BATCH_WEIGHT * headers.count
        if self._is_joined and parts[-1].last + 1 == part.first:  # otherwise it was inside a broken one
            parts.lengthen(part.end, part.last, weight, records)
        else:
            # The zeros of an offset may belong to damage before it: then the offset proves nothing.
            may_be_swallowed = headers.count == 1 and part.first == 0 and self._is_behind_damage
            is_swallowed = may_be_swallowed and self._behind.buffer[part.start - 1] == 0
            parts.append(part, _REPAIRED_WEIGHT if is_swallowed else weight + is_clean, records)
            if (first.producer_id, first.max_timestamp) in self._remembered:
                self._known.append(part.start)
        self._is_joined = True

    def _handle_broken(self, headers: HeaderRows, row: int, kind: int, expected: int) -> None:
        """Handles a batch with a problem."""
        one = headers[row]
        position, size = one.position, one.size
        if not one.has_right_crc or not 0 <= one.magic <= MAGIC_V2:
            head = header_repair.with_right_header(self._behind, position, size)
            if head is None:
                # Where offsets go on across it, from the batch before to the one after, its length is right.
                is_whole = one.first_offset == expected + 1 and row + 1 < headers.count
                is_whole = is_whole and headers[row + 1].first_offset == one.last_offset + 1
                length = size if is_whole else self._find_inside(position, size, expected)
                self._draft.cut_out("crc-mismatch", position, length, "the checksum is not that of the bytes")
            else:
                self._add_repaired(position, size, head)
            return
        if kind == _REJECTED:
            why = self._rejected[position]
            self._draft.cut_out(why.code, position, size, why.message)
            return
        if kind == _REPAIRED:
            self._add_repaired(position, size, self._heads[position])
            return
        is_exact = kind == chain.WRONG_OFFSET and (one.magic == MAGIC_V2 or one.first_offset == one.last_offset)
        self._misplace(one, expected if is_exact else -1)

    def _find_inside(self, position: int, size: int, before: int) -> int:
        """Finds intact batches inside a broken one, whose length may be wrong. Returns the number of bytes before them.

        They lead to its end, which batches inside a record do not; at the end of the file they may end a little
        earlier, and must continue the previous offset.
        """
        end = position + size
        start = next_frame(self._behind.extent, position + 1, end)
        if start < 0:
            return size
        accepted = AcceptedBatches(self._behind, end, start)
        found = list(accepted)
        if accepted.position != end:
            is_cut = end == self._behind.size and sum(headers.count for headers in found) >= _FEW_BATCHES
            if not is_cut or found[0][0].last_offset <= before:
                return size
            at = accepted.position
            self._draft.cut_out("truncated-batch", at, end - at, "the rest at the end")
        for headers in found:
            self._compressed.open(headers, before)
            for row in range(headers.count):
                parts, first = self._draft.parts, headers[row].first_offset
                self._is_joined = self._is_joined and len(parts) > 0 and parts[-1].last + 1 == first
                self._add_rows(headers.part(row, row + 1), True)
        return start - position

    @property
    def has_compacted_batches(self) -> bool:
        """Whether a batch has fewer records than offsets, which only the cleaner leaves."""
        return self._is_compacted or self._chain.sparse > 0 or self._compressed.has_holes

    def finish(self) -> SegmentDraft:
        """Returns the parts in their places, the misplaced runs and the cuts."""
        kept = self._draft
        kept.is_sparse = self.has_compacted_batches or self._plain_gaps > _PLAIN_GAPS
        if disproven := self._disproven():
            self._set_misplaced(disproven)
        chosen = longest_rising_run(kept.parts)
        if chosen is None:
            return kept
        verdicts = {number: OverlapResult() for number in set(range(len(kept.parts))).difference(chosen)}
        if kept.is_sparse:
            overlaps = OverlapResolution(self._source, kept, self._evidence, self._scratch)
            verdicts = overlaps.resolve(chosen, verdicts)
        self._set_misplaced(verdicts)
        return kept

    def _disproven(self) -> dict[int, OverlapResult]:
        """Returns the verdicts on single batches that alone match a snapshot's entry, which has another offset."""
        parts, found = self._draft.parts, dict[int, list[int]]()
        if self._evidence is None:
            return {}
        for position in self._known:
            number = parts.at_position(position)
            if number >= 0 and parts[number].start == position and parts.is_one_batch(number):
                first = self._evidence.proven_offset(self._source, parts[number])
                if first is not None:
                    found.setdefault(first, []).append(number)
        alone = [(first, numbers[0]) for first, numbers in found.items() if len(numbers) == 1]
        return {number: OverlapResult(first) for first, number in alone if parts[number].first != first}

    def _set_misplaced(self, verdicts: dict[int, OverlapResult]) -> None:
        """Moves parts to the misplaced runs, by number."""
        parts = self._draft.parts
        for number, verdict in sorted(verdicts.items()):
            batches, records = max(parts.weights[number] // segment_draft.BATCH_WEIGHT, 1), parts.records[number]
            self._add_misplaced(parts[number], batches, records, verdict.expected, verdict.doubt)
        self._draft.parts = parts.without(verdicts)


def _records_in(headers: HeaderRows) -> int:
    """Returns the record count by the headers; the number of offsets replaces a negative or larger count."""
    counts, firsts, lasts = headers.records, headers.firsts, headers.lasts
    total, span = sum(counts), lasts[-1] - firsts[0] + 1
    if 0 < total <= span and min(counts) >= 0:
        return total
    spans = [last - first + 1 for first, last in zip(firsts, lasts, strict=True)]
    return sum(max(count if 0 <= count <= span else span, 0) for count, span in zip(counts, spans, strict=True))
