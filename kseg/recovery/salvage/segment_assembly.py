"""Assembles the segments of a partition from its files.

Each file is read once; if names and contents agree, this is enough. Otherwise the batches of all files are compared
(`OffsetClaims`), the kept batches determine where segments begin (`segment_bounds`), and a file is read again if its
segment has other bounds than its name says.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice, pairwise
from typing import NamedTuple

from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, CLEANED, DELETED, LOG, SIDE_SUFFIXES, SWAP
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_COUNT, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be32
from kseg.recovery.broker.segments import LeaderEpochs
from kseg.recovery.salvage.header_repair import one_bit_away, reach_of
from kseg.recovery.salvage.segment_draft import EXCESS_OFFSETS, MisplacedRun, SalvagedBatches, SegmentDraft, batches_of
from kseg.recovery.workspace import Workspace, leading_offset
from kseg.segment.files import LAST_OFFSET, OWN_PREFIX, SIDE_NAMES, segment_stem
from kseg.segment.paths import first_base_offset, has_intact_batch, holds_batches
from kseg.segment.writer import LARGEST_DELTA
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.source import open_source


class SegmentSource(NamedTuple):
    """One file. ``base``: the offset in its name, None for none; ``is_named``: whether brokers use such names."""

    name: str
    base: int | None
    is_named: bool


def segment_sources(workspace: Workspace) -> list[SegmentSource]:
    """Returns the segments by base offset, then all other files with batches by name. Raises PathError if a file cannot
    be opened.

    A `.log` under another name, such as `.log.bak`, and files that a cleaning left (`.log.swap`, `.log.cleaned`)
    contain batches of the partition like any segment; so does any other file that begins with batches. Files marked
    `.deleted` are ignored, because a broker removes them when it starts. Compressed files and KRaft snapshots are left
    unchanged.
    """
    found = []
    for name in workspace.names():
        is_log = name.endswith(LOG) or LOG + "." in name
        if not name.endswith((DELETED, *PACKED_SUFFIXES)) and (is_log or _holds_batches(workspace, name)):
            base = leading_offset(name)
            base = base if base is not None and base >= 0 else None
            found.append(SegmentSource(name, base, name == segment_stem(base or 0) + LOG))
    return sorted(found, key=lambda source: (not source.is_named, source.base or 0, source.name))


def _holds_batches(workspace: Workspace, name: str) -> bool:
    """Whether a file with another name has an intact batch near its start; a side file must begin with a batch, too.

    The entries of an index can resemble the header of a batch, but not one whose checksum is right.
    """
    if name in SIDE_NAMES or name.startswith(OWN_PREFIX) or CHECKPOINT in name:
        return False
    with open_source(workspace.path(name)) as source:
        if name.endswith(SIDE_SUFFIXES):
            return first_base_offset(source) is not None and has_intact_batch(source)
        return holds_batches(source, "")


_RECORD_BITS = 60


class OffsetInterval(NamedTuple):
    """A piece: batches at ``[start, end)`` of file number ``source``, with contiguous offsets ``first`` to ``last``.

    ``preference`` decides between equal numbers of records: the higher one is kept. ``is_loose``: a single batch
    outside the offsets of its file, with no neighbour that continues to it; its offset may be wrong. ``head``: as in
    `SalvagedBatches`.
    """

    first: int
    last: int
    source: int
    start: int
    end: int
    records: int
    preference: int = 0
    is_loose: bool = False
    head: bytes = b""


def schedule(pieces: Iterable[OffsetInterval]) -> list[OffsetInterval]:
    """Returns the kept pieces by offset: no two overlap, and no other choice has more records.

    This is weighted interval scheduling. Between choices with equal numbers, the preferences of the pieces decide, then
    source number and position.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.last, piece.first, piece.source, piece.start))
    lasts = [piece.last for piece in ordered]
    best, before = [0], list[int]()
    for i, piece in enumerate(ordered):
        before.append(bisect_left(lasts, piece.first, 0, i))
        records = max(piece.records, 1)
        weight = (records << _RECORD_BITS) + records * piece.preference
        best.append(max(best[i], weight + best[before[i]]))
    chosen, i = list[OffsetInterval](), len(ordered)
    while i:
        if best[i] == best[i - 1]:
            i -= 1
        else:
            chosen.append(ordered[i - 1])
            i = before[i - 1]
    return chosen[::-1]


def cut_at_conflicts(
    pieces: Iterable[OffsetInterval], batches_of: Callable[[OffsetInterval], Iterator[OffsetInterval]]
) -> list[OffsetInterval]:
    """Returns the pieces; overlapping ones are cut where others begin or end, so that only the conflicting batches are
    decided on. ``batches_of`` yields the batches of a piece."""
    clusters, reached = list[list[OffsetInterval]](), -1  # they overlap directly or through others
    for piece in sorted(pieces):
        if not clusters or piece.first > reached:
            clusters.append([])
        clusters[-1].append(piece)
        reached = max(reached, piece.last)
    found: list[OffsetInterval] = []
    for cluster in clusters:
        cuts = sorted({piece.first for piece in cluster} | {piece.last + 1 for piece in cluster})
        for piece in cluster:
            is_cut = bisect_right(cuts, piece.first) < bisect_right(cuts, piece.last)
            found += _joined(batches_of(piece), cuts) if is_cut else [piece]
    return found


def _joined(batches: Iterator[OffsetInterval], cuts: list[int]) -> Iterator[OffsetInterval]:
    """Yields the batches of a piece, joined between cuts; a batch that contains a cut is a piece of its own."""
    held: OffsetInterval | None = None
    for batch in batches:
        at = bisect_left(cuts, batch.first)
        begins = at < len(cuts) and cuts[at] == batch.first
        holds = bisect_right(cuts, batch.first) < bisect_right(cuts, batch.last)
        if held is not None and (begins or holds):
            yield held
            held = None
        if holds:
            yield batch
        elif held is None:
            held = batch
        else:
            held = held._replace(last=batch.last, end=batch.end, records=held.records + batch.records)
    if held is not None:
        yield held


_CONTINUES, _IS_NAMED, _EPOCH_AGREES = 4, 2, 1
"""Preferences between batches that claim the same offsets and have equal numbers of records: the batch is not loose;
the file's name is the offset of its first batch; leader-epoch-checkpoint has the batch's epoch at its offset."""


def is_plain(run: MisplacedRun) -> bool:
    """Whether no evidence contradicts the offsets of a misplaced run. A batch that exactly fills the gap between its
    neighbours in the file is in its place, whatever its offset says, unless it continues the segment before."""
    kept, part = run.own, run.part
    if run.expected >= 0 or run.doubt or not 0 <= part.first <= part.last <= part.first + LARGEST_DELTA * run.batches:
        return False
    if run.batches > 1 or kept.base < 0 or run.continues:
        return True
    i = kept.parts.at_position(part.start)
    start = kept.parts[i].last + 1 if i >= 0 else kept.base
    stop = kept.parts[i + 1].first if i + 1 < len(kept.parts) else kept.limit + 1
    is_exact = stop - start == part.last - part.first + 1 and (not kept.is_last or i + 1 < len(kept.parts))
    return not is_exact or part.first == start


def _is_loose(run: MisplacedRun) -> bool:
    """Whether a misplaced run is loose, as in `OffsetInterval`."""
    parts, part = run.own.parts, run.part
    if run.batches > 1 or not len(parts):
        return False
    i = parts.at_position(part.start)
    leads_on = i >= 0 and (parts[i].end, parts[i].last + 1) == (part.start, part.first)
    is_led_from = i + 1 < len(parts) and (parts[i + 1].start, parts[i + 1].first) == (part.end, part.last + 1)
    return not (leads_on or is_led_from)


def _expect_at_base(kept: Sequence[SegmentDraft]) -> None:
    """Records that the first batch of a file is expected at the offset in the file's name, if it continues another
    file's batches there, and conflicts with them at its own offset."""
    suspects = {
        run
        for one in kept
        for run in one.misplaced
        if one.base >= 0 and run.part.start == 0 and run.batches == 1 and is_plain(run)
    }
    claims = [part for one in kept if suspects for part in one.parts]
    claims += [run.part for one in kept for run in one.misplaced if is_plain(run) and run not in suspects]
    claims.sort(key=lambda part: part.first)
    firsts = [part.first for part in claims]
    reached = list(accumulate((part.last for part in claims), max))

    def is_claimed(first: int, last: int) -> bool:
        i = bisect_right(firsts, last)
        return i > 0 and reached[i - 1] >= first

    for run in suspects:
        first, last, base = run.part.first, run.part.last, run.own.base
        leads_on = is_claimed(base - 1, base - 1) and not is_claimed(base, base + last - first)
        if leads_on and is_claimed(first, last):
            run.expected = base


def _check_ends(kept: Sequence[SegmentDraft], sources: Sequence[SegmentSource]) -> None:
    """Decides on single v2 batches that reach the base offset of another file, at which its first batch begins. If all
    their records lie before it, either the offset of the batch, which no checksum covers, is one bit away from the
    right one, or its end is doubtful."""
    begins = sorted(
        source.base
        for one, source in zip(kept, sources, strict=True)
        if source.is_named and source.base is not None
        for part in (*islice(one.parts, 1), *(run.part for run in one.misplaced[:1]))
        if (part.start, part.first) == (0, source.base)
    )
    for one in kept:
        for run in one.misplaced:
            i, is_wide = bisect_right(begins, run.part.first), run.batches == 1 and run.records > 0
            if is_wide and i < len(begins) and begins[i] <= run.part.last and is_plain(run):
                _check_end(run, begins[i])


def _check_end(run: MisplacedRun, behind: int) -> None:
    """Checks the end of a batch that reaches ``behind``, the base offset of another segment."""
    part, parts = run.part, run.own.parts
    with open_source(run.own.path) as source:
        if part.leading_bytes(source, ENTRY_MAGIC + 1)[ENTRY_MAGIC] < MAGIC_V2:
            return
        if part.first + run.records == behind:
            run.doubt = EXCESS_OFFSETS
            return
        i = parts.at_position(part.start)
        low = parts[i].last if i >= 0 else run.own.base - 1
        firsts = one_bit_away(source, part, low, behind)
        found = reach_of(source, part, Scratch())
        if len(firsts) == 1:
            run.expected = firsts[0]
        elif not firsts and found is not None and found[1] < behind:
            run.doubt = EXCESS_OFFSETS


class OffsetClaims:
    """The offsets that the files of a partition claim, and the choice between batches that claim the same ones.
    ``kept``: what was read of each of the ``sources``; ``epochs``: those of leader-epoch-checkpoint.

    ``chosen``: the kept batches by offset.
    """

    def __init__(self, kept: Sequence[SegmentDraft], sources: Sequence[SegmentSource], epochs: LeaderEpochs) -> None:
        self._kept, self._epochs = kept, epochs
        _expect_at_base(kept)
        _check_ends(kept, sources)
        ends = [one.parts[-1].last for one in kept if len(one.parts)]
        ends += [run.part.last for one in kept for run in one.misplaced if run.batches > 1]
        self._far = 2 * max(ends, default=LAST_OFFSET)
        """Far above the offsets of batches in their places: a single batch beyond it may have a wrong offset."""
        pieces = [piece for number, one in enumerate(kept) for piece in self._pieces(number, one, sources[number])]
        self._all = cut_at_conflicts(pieces, self._batches)
        self.chosen = schedule(self._all)

    def outweighed(self, sources: Container[int | None]) -> dict[int, set[int]]:
        """Returns the first offsets of the batches that lose to batches with more records in other files, by file.
        Only batches of ``sources`` are read."""
        chosen, stays, found = self.chosen, set(self.chosen), dict[int, set[int]]()
        lasts = [piece.last for piece in chosen]
        for piece in self._all:
            if piece in stays or piece.source not in sources:
                continue
            i, rivals = bisect_left(lasts, piece.first), 0
            while i < len(chosen) and chosen[i].first <= piece.last:
                rivals += chosen[i].records * (chosen[i].source != piece.source)
                i += 1
            if rivals > piece.records:
                found.setdefault(piece.source, set()).update(batch.first for batch in self._batches(piece))
        return found

    def _pieces(self, number: int, kept: SegmentDraft, source: SegmentSource) -> Iterator[OffsetInterval]:
        found = [(part, records, False) for part, records in zip(kept.parts, kept.parts.records, strict=True)]
        for run in kept.misplaced:
            if is_plain(run):
                is_far = run.batches == 1 and run.part.first > self._far
                found.append((run.part, run.records, is_far or _is_loose(run)))
        is_named = source.is_named and min((part.first for part, *_ in found), default=-1) == source.base
        for part, records, is_loose in found:
            preference = _CONTINUES * (not is_loose) + _IS_NAMED * is_named
            ends = (part.first, part.last, number, part.start, part.end)
            yield OffsetInterval(*ends, records, preference, is_loose, part.head)

    def _batches(self, piece: OffsetInterval) -> Iterator[OffsetInterval]:
        part = SalvagedBatches(piece.start, piece.end, piece.first, piece.last, piece.head)
        with open_source(self._kept[piece.source].path) as source:
            for batch in batches_of(source, part):
                head = batch.leading_bytes(source, HEADER_BYTES)
                records = span = batch.last - batch.first + 1
                preference = piece.preference & (_CONTINUES | _IS_NAMED)
                if head[ENTRY_MAGIC] >= MAGIC_V2:
                    starts = (one.epoch for one in reversed(self._epochs.entries) if one.start_offset <= batch.first)
                    count, epoch = be32(head, V2_COUNT), next(starts, -1)
                    records = count if 0 <= count <= span else span
                    preference += _EPOCH_AGREES * (be32(head, V2_LEADER_EPOCH) == epoch)
                ends = (batch.first, batch.last, piece.source, batch.start, batch.end)
                yield OffsetInterval(*ends, records, preference, piece.is_loose, batch.head)


class SegmentBounds(NamedTuple):
    """A segment from ``base`` to the next base offset ``behind``, None for the last. ``source``: the number of the file
    that it is made of, None for a new one."""

    base: int
    source: int | None
    behind: int | None = None


def segment_bounds(chosen: Sequence[OffsetInterval], sources: Sequence[SegmentSource]) -> list[SegmentBounds]:
    """Returns the segments, sorted, as the batches show them: a file name alone proves nothing. ``chosen``: all kept
    batches by offset.

    A name is right if no batch crosses its offset and the file has most of the kept batches from there on. Later
    batches in other files make segments of their own, which begin at their first batches; scattered batches are added
    to the segment before them.
    """
    names = _names(sources)
    own_names = {name.source: name.base for name in names}
    firm = [
        piece
        for piece in chosen
        if not piece.is_loose
        # No other segment could hold a batch of the first file below the offset in its name, or one across a name.
        or (names and piece.source == names[0].source and piece.first < names[0].base)
        or piece.first < own_names.get(piece.source, -1) <= piece.last
    ]
    names = [name for name in names if _may_be_right(name, firm, chosen)]
    bases: dict[int | None, int] = {}  # by source
    idle: list[SegmentBounds] = []
    rest: list[tuple[SegmentBounds | None, list[OffsetInterval]]] = []
    starts = [bisect_left(firm, name.base, key=lambda piece: piece.first) for name in names]
    # The pieces before the first name, and from each name to the next.
    for name, (start, end) in zip([None, *names], pairwise([0, *starts, len(firm)]), strict=True):
        pieces = firm[start:end]
        held = 0 if name is None else _held_by(name.source, pieces)
        if name is not None and held:
            bases[name.source] = name.base
        elif name is not None and not pieces:
            idle.append(name)
        for number, (_, same) in enumerate(groupby(pieces[held:], key=lambda piece: piece.source)):
            rest.append((None if held or number else name, list(same)))
    main, largest = dict[int, int](), dict[int, int]()  # the group of most records, by source
    for number, (_, group) in enumerate(rest):
        source = group[0].source
        records = sum(piece.records for piece in group)
        if source not in bases and records > largest.get(source, -1):
            main[source], largest[source] = number, records
    found = []
    for number, (name, group) in enumerate(rest):
        source = group[0].source
        if main.get(source) == number:
            bases[source] = _base(sources[source], group[0], firm) if name is None else name.base
        elif name is not None:
            found.append(SegmentBounds(name.base, None))
    found += [SegmentBounds(base, source) for source, base in bases.items()]
    found += [name for name in idle if name.source not in bases]
    if firm and firm[0].first < min(bounds.base for bounds in found):
        found.append(SegmentBounds(firm[0].first, None))
    return _rising(found)


def _names(sources: Sequence[SegmentSource]) -> list[SegmentBounds]:
    """Returns the segments that the file names begin, sorted."""
    named = [(source.base, n) for n, source in enumerate(sources) if source.is_named and source.base is not None]
    return [SegmentBounds(*name) for name in sorted(named)]


def _rising(bounds: Iterable[SegmentBounds]) -> list[SegmentBounds]:
    found = sorted(bounds, key=lambda one: one.base)
    ends = [*(one.base for one in found), None][1:]
    return [one._replace(behind=behind) for one, behind in zip(found, ends, strict=True)]


def _may_be_right(name: SegmentBounds, firm: Sequence[OffsetInterval], chosen: Sequence[OffsetInterval]) -> bool:
    """Whether no batch crosses the offset in a name. If no batch of the file is kept: and no other file is on both
    sides of it."""
    i = bisect_left(firm, name.base, key=lambda piece: piece.first)
    around = firm[i - 1 : i + 1] if 0 < i < len(firm) else ()
    is_same = any(before.source == behind.source for before, behind in pairwise(around))
    is_joined = any((one.last + 1, one.end) == (two.first, two.start) for one, two in pairwise(around))
    if _lies_inside(name.base, firm) or (is_same and is_joined):
        return False
    if any(piece.source == name.source for piece in firm):
        return True
    return not is_same and not _lies_inside(name.base, chosen)


def _lies_inside(offset: int, pieces: Sequence[OffsetInterval]) -> bool:
    """Whether an offset is above the first and not above the last offset of a piece."""
    i = bisect_right(pieces, offset, key=lambda piece: piece.first) - 1
    return i >= 0 and pieces[i].first < offset <= pieces[i].last


def _held_by(source: int | None, pieces: Sequence[OffsetInterval]) -> int:
    """Returns how many of the first pieces make a segment of a source: it has half of their records, and the last."""
    own = total = held = 0
    for number, piece in enumerate(pieces, 1):
        total += piece.records
        own += piece.records * (piece.source == source)
        if piece.source == source and 2 * own >= total:
            held = number
    return held


def _base(source: SegmentSource, piece: OffsetInterval, firm: Sequence[OffsetInterval]) -> int:
    """Returns the base offset of a segment that begins with the batches of a piece."""
    i = bisect_left(firm, piece.first, key=lambda one: one.first)
    reached = firm[i - 1].last if i else -1
    return source.base if source.base is not None and reached < source.base <= piece.first else piece.first


_MIN_BATCHES = 2
"""Least number of batches that make a segment; a single one may have a wrong offset."""


def overflow(draft: SegmentDraft, next_base: int | None) -> list[SegmentDraft]:
    """Removes the batches that overflow the segment's index from its misplaced runs. Returns the segments made of them.
    The log cleaner of old releases left such segments (KAFKA-6264).

    These batches come after all that are in their places, and rise. ``next_base``: base offset of the next segment,
    None for the last.
    """
    if draft.limit < draft.base + LARGEST_DELTA:
        return []
    made: list[SegmentDraft] = []
    groups: list[list[MisplacedRun]] = []
    for run in _tail(draft, next_base):
        if run.part.last > (made or [draft])[-1].limit:
            made.append(SegmentDraft("", run.part.first, next_base))
            groups.append([])
        groups[-1].append(run)
    # Without a cleaner nothing explains such distances between offsets.
    counts = [sum(run.batches for run in group) for group in groups]
    if (sum(counts) if draft.is_sparse else max(counts, default=0)) < _MIN_BATCHES:
        return []
    for new, group in zip(made, groups, strict=True):
        new.is_sparse, new.epochs_fall = draft.is_sparse, draft.epochs_fall
        for run in group:
            new.put(run.part)
    taken = {run for group in groups for run in group}
    draft.misplaced = [run for run in draft.misplaced if run not in taken]
    draft.is_rearranged = True
    for before in [draft, *made][:-1]:
        before.is_last = False
    return made


def _tail(draft: SegmentDraft, next_base: int | None) -> list[MisplacedRun]:
    """Returns the misplaced runs beyond the segment's limit that rise in positions and offsets."""
    found, offset = list[MisplacedRun](), draft.limit
    position = draft.parts[-1].end if len(draft.parts) else 0
    for run in draft.misplaced:
        part = run.part
        is_beyond = offset < part.first <= part.last < part.first + LARGEST_DELTA
        if part.start >= position and run.expected < 0 and is_beyond and (next_base is None or part.last < next_base):
            found.append(run)
            offset = part.last
    return found


_OF_BROKER = (LOG, SWAP, CLEANED, *SIDE_SUFFIXES)
_OUTWEIGHED = "are also those of batches in another file, which have more records"

Scan = Callable[[str, int | None, int | None], SegmentDraft]
"""Reads a file, given its name, the base offset of its segment (None: it makes none) and that of the next segment."""


def assemble(
    sources: Sequence[SegmentSource], scan: Scan, epochs: LeaderEpochs
) -> tuple[list[SegmentDraft], list[SegmentDraft]]:
    """Returns the segments, sorted, and the files that make no segment, though their batches may belong to one.

    ``sources`` are in the order of `segment_sources`; ``epochs``: those of leader-epoch-checkpoint.
    """

    def read(bounds: SegmentBounds) -> SegmentDraft:
        if bounds.source is None:
            return SegmentDraft("", bounds.base, bounds.behind)
        return scan(sources[bounds.source].name, bounds.base, bounds.behind)

    by_name = _rising(_names(sources))
    kept = [read(bounds) for bounds in by_name]
    for before, one in pairwise(kept):
        for run in one.misplaced[:1]:
            ends = before.parts[-1].last if len(before.parts) else -1
            run.continues = run.part.start == 0 and 0 <= ends == run.part.first - 1
    if len(by_name) == len(sources) and not any(is_plain(run) for one in kept for run in one.misplaced):
        return _finished(by_name, kept), []
    known = dict(zip(by_name, kept, strict=True))
    kept += [scan(source.name, None, None) for source in sources[len(by_name) :]]
    claims = OffsetClaims(kept, sources, epochs)
    bounds = segment_bounds(claims.chosen, sources)
    segments = [known[one] if one in known else read(one) for one in bounds]
    # Batches that lose to those of another file become misplaced.
    by_source = {one.source: segment for one, segment in zip(bounds, segments, strict=True)}
    for source, firsts in claims.outweighed(by_source).items():
        segment = by_source[source]
        for part in segment.leave_out(firsts):
            segment.misplaced.append(MisplacedRun(segment, part._replace(path=segment.path), 1, doubt=_OUTWEIGHED))
    used = {one.source for one in bounds}
    others = [
        kept[number] if number >= len(by_name) else scan(source.name, None, None)
        for number, source in enumerate(sources)
        # A broker reads or removes files with such names, whatever they hold.
        if number not in used and (source.name.endswith(_OF_BROKER) or kept[number].misplaced)
    ]
    return _finished(bounds, segments), others


def _finished(bounds: Iterable[SegmentBounds], kept: Iterable[SegmentDraft]) -> list[SegmentDraft]:
    """Names the segments, and adds those made of batches that overflow one."""
    drafts: list[SegmentDraft] = []
    for one, draft in zip(bounds, kept, strict=True):
        draft.name = segment_stem(one.base) + LOG
        drafts.append(draft)
        drafts += overflow(draft, one.behind)
    return drafts
