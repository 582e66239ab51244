"""``recover --mode salvage``: cuts damaged ranges out and keeps every intact batch at its own offset.

The partition is treated as a whole: intact batches are moved to their offsets, whatever segment they are in. A damaged
segment gets a new .log, or is truncated if only its end is damaged. Then the broker's recovery runs on all segments; it
finds nothing more to truncate, and builds all side files.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kseg.changes.accepted_gaps import accepted_gaps
from kseg.changes.plan import Plan, Range, Removed
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG, SEGMENT_SUFFIXES, SNAPSHOT
from kseg.logdir.belonging import FOREIGN_BATCHES, ForeignSegment, foreign_segments, index_fits
from kseg.recovery.broker.loading import PartitionLoad
from kseg.recovery.broker.losses import Loss, Remaining, intact_in, remaining
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.destination import TopicIds
from kseg.recovery.options import EPOCHS_REPAIRED, BrokerStart
from kseg.recovery.salvage.offset_evidence import OffsetEvidence
from kseg.recovery.salvage.parts import NO_OFFSET, SalvagedBatches, SegmentContents, batch_of, batches_of
from kseg.recovery.salvage.rejected_batches import KEEP_ALL, BatchFilter, Dropping, Rejection, transaction_conflicts
from kseg.recovery.salvage.relocation import Relocation
from kseg.recovery.salvage.segment_assembly import Assembled, assemble, new_segment
from kseg.recovery.salvage.segment_draft import Layout, SegmentDraft, repair_epochs
from kseg.recovery.salvage.segment_scan import scan_segment
from kseg.recovery.salvage.segment_sources import remove_broker_leftovers, segment_sources
from kseg.recovery.workspace import BrokerRefusesError, TransactionConflictError, Workspace, leading_offset
from kseg.segment.batches import Batch
from kseg.segment.cleaner_reach import cleaner_reach
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import HeaderRows
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES
from kseg.sidefiles.partition_metadata import PARTITION_METADATA
from kseg.stores import trees
from kseg.stores.source import open_source

_MAX_LOADS = 3
_FOREIGN = "its batches belong to another partition"
_MISNAMED = "a segment is named by its base offset"


@dataclass(slots=True)
class Salvage:
    """The plan for one partition. ``cuts``: the removed ranges by file; ``more_cuts``: the number of those not listed;
    ``intact``: the loss in those that hold intact batches, by file and position.

    ``repaired``: number of batches with a repaired header; ``moved``: number of moved runs of batches; ``ambiguous``:
    removed batches whose offsets may be right. ``is_compacted``: the log was compacted; then the plan's gaps include
    offsets that the cleaner removed where bytes are damaged, but no others that it removed. ``remains``: problems of
    batches that are kept; ``unrepaired``: sentences about other problems that remain; ``not_dropped``: offsets to drop
    that no intact batch has; ``log_start``: the new log start offset if the recorded one is beyond the end of the log.
    """

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[tuple[str, Damage]] = field(default_factory=list)
    more_cuts: int = 0
    intact: dict[tuple[str, int], Loss] = field(default_factory=dict)
    repaired: int = 0
    moved: int = 0
    ambiguous: int = 0
    is_compacted: bool = False
    remains: list[Remaining] = field(default_factory=list)
    unrepaired: str = ""
    log_start: int | None = None
    not_dropped: list[int] = field(default_factory=list)

    @property
    def changes_log(self) -> bool:
        """Whether batches are changed, removed or moved, not only side files and leftovers."""
        return any(step.file.endswith(LOG) or step.target.endswith(LOG) for step in self.plan.steps)


def plan_salvage(
    directory: str,
    start: BrokerStart,
    scratch: Scratch | None = None,
    is_compacted: Callable[[], bool] = lambda: False,
    dropping: Dropping = KEEP_ALL,
) -> Salvage:
    """Plans the salvage. ``is_compacted``: whether gaps may come from the log cleaner, called if the log does not show
    it; ``dropping``: the intact batches to drop.

    Raises BrokerRefusesError if a broker would not start for another reason than damage of a .log.
    """
    return run_salvage(
        lambda rejected: SalvageLoad(
            start.workspace(directory), start, scratch or Scratch(), is_compacted, dropping, rejected
        )
    )


def forecast_salvage(directory: str, start: BrokerStart, scratch: Scratch) -> tuple[int, list[tuple[int, int]], bool]:
    """Decides only which batches each segment gets; of most intact batches it reads the headers. Raises as
    `plan_salvage`.

    Returns the offset after the last batch, the missing offsets before it, and whether damaged bytes are cut out.
    """
    start = replace(start, interval_bytes=DEFAULT_INTERVAL_BYTES)  # no index is built
    return SalvageLoad(start.workspace(directory), start, scratch, lambda: False, KEEP_ALL, Rejected()).forecast()


def run_salvage(make_load: "Callable[[Rejected], SalvageLoad]") -> Salvage:
    """Runs loads until a broker's loader would accept the result; ``make_load`` makes a load that leaves out batches.

    Raises TransactionConflictError if a broker would reject the result of the last load, too.
    """
    rejected, left = Rejected(), _MAX_LOADS
    while True:
        load, left = make_load(rejected), left - 1
        try:
            load.run()
        except TransactionConflictError:
            if not left:
                raise
            found = load.transaction_conflicts()
            # If no batch contradicts another one, the open transaction comes from a snapshot.
            rejected = Rejected({**rejected.batches, **found}, rejected.snapshots or not found)
        else:
            return load.outcome()


@dataclass(frozen=True, slots=True)
class Rejected:
    """The input that a broker's loader rejects: ``batches`` by first offset; ``snapshots``: all existing ones."""

    batches: dict[int, Rejection] = field(default_factory=dict)
    snapshots: bool = False


class SalvagedSegment(BrokerSegment):
    """A segment that is kept whole, however large its batches are; ``layout``: None for an unchanged file."""

    def __init__(self, workspace: Workspace, stem: str, base_offset: int, layout: Layout | None) -> None:
        super().__init__(workspace, stem, base_offset)
        self._layout = layout

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[HeaderRows]:
        if self._layout is None:
            yield from super().headers(position)
        else:
            yield from self._layout.headers(position)

    def read(self, position: int, length: int) -> bytes:
        return super().read(position, length) if self._layout is None else self._layout.read(position, length)


class SalvageLoad(PartitionLoad):
    """A load that repairs the segments first."""

    def __init__(
        self,
        workspace: Workspace,
        start: BrokerStart,
        scratch: Scratch,
        is_compacted: Callable[[], bool],
        dropping: Dropping,
        rejected: Rejected,
    ) -> None:
        self._sources = segment_sources(workspace)
        self._source_names = {source.name for source in self._sources}
        if rejected.snapshots:
            for name in self._snapshots(workspace):
                workspace.delete(name, "contradicts the batches: a producer would write outside of its transaction")
        # No producer expires: here the contents of snapshots matter more than their age.
        epochs = max(start.epochs, EPOCHS_REPAIRED)
        super().__init__(workspace, replace(start, was_clean=False, recovery_point=0, now_ms=0, epochs=epochs))
        self._filter = BatchFilter(dropping)
        self._rejected = rejected.batches
        self._drafted: list[SegmentDraft] = []
        self._scratch = scratch
        self._may_be_compacted = is_compacted
        self._evidence = OffsetEvidence(workspace)
        self._layouts: dict[int, Layout] = {}
        self._foreign: dict[str, ForeignSegment] = {}
        self._others: list[SegmentDraft] = []
        """Files that make no segment."""
        self._removed: dict[SegmentDraft, list[Removed]] = {}
        """The removed ranges of its file, for each segment: a new one may have the name of another's file."""
        self._result = Salvage(workspace.directory, Plan(workspace.directory), 0)
        self._gaps: list[tuple[int, int]] = []
        self._accepted = accepted_gaps(workspace.directory)

    def _snapshots(self, workspace: Workspace) -> list[str]:
        """Returns the names of producer snapshots, except files that contain batches."""
        return [name for name in workspace.names(SNAPSHOT) if name not in self._source_names]

    def _refuse_07(self) -> None:
        if not self._sources:
            super()._refuse_07()

    def _check_snapshot_names(self) -> None:
        for name in self._snapshots(self.workspace):
            if leading_offset(name) is None:
                self.workspace.delete(name, "its name is no offset: a broker does not start with it")

    def outcome(self) -> Salvage:
        """Returns the result after `run`."""
        found = self._result
        found.plan, found.next_offset = self.workspace.plan(), self.next_offset
        accepted = self._accepted.among(self._gaps, min(self.segments, default=0))
        found.plan.gaps = [gap for gap in self._gaps if gap not in accepted]
        kept = remaining(self.workspace.directory, self.segments, self.remains)
        found.remains, found.unrepaired = [one for one in kept if not one.missing], self.unrepaired
        found.not_dropped = sorted(self._filter.dropping.offsets - self._filter.dropped_offsets)
        return found

    def forecast(self) -> tuple[int, list[tuple[int, int]], bool]:
        """Returns the result of `forecast_salvage`, instead of `run`."""
        drafts, self._others = self._assembled()
        self._relocate(drafts)
        segments = self._without_stranded_end(drafts)
        for draft in (*drafts, *self._others):
            self._recorded(draft)
        holes = _gaps_of([draft for draft in drafts if draft in segments or draft.is_changed], False)
        next_offset = max((draft.next_offset for draft in segments), default=0)
        return next_offset, holes, len(self._result.cuts) > len(self._result.intact)

    def _handle_leftovers(self) -> list[str]:
        """Leftovers of a cleaning are treated like any other file with batches."""
        remove_broker_leftovers(self.workspace, self._source_names)
        return []

    def _repair_topic_id(self, ids: TopicIds) -> str:
        try:
            return super()._repair_topic_id(ids)
        except BrokerRefusesError as error:  # the log is salvaged even if the topic id is lost
            self.workspace.delete(PARTITION_METADATA, "cannot be read: a broker does not start with it")
            return str(error).removeprefix(f"{self.workspace.directory}/")

    def _load_segments(self) -> None:
        drafts, self._others = self._assembled()
        self._arrange(drafts)
        self._leave_out(drafts, self._rejected)
        self._drafted = drafts
        holds_batches = any(not draft.is_empty for draft in drafts)
        if holds_batches and drafts[-1].next_offset < self.start.log_start_offset:  # a broker would delete all segments
            self._result.log_start = drafts[0].contents.base
            self.start = replace(self.start, log_start_offset=drafts[0].contents.base)
        segments = self._without_stranded_end(drafts)
        self._remove_others()
        self._write_all(segments)
        self.producers.load_names()
        self._add_gaps([draft for draft in drafts if draft in segments or draft.is_changed])
        ends = [draft.next_offset for draft in segments if not draft.is_empty]
        if ends:  # otherwise entries of lost batches prevent the epochs of the kept batches from being added
            self.epochs.truncate_from_end(ends[-1])
        first = next((draft for draft in segments if not draft.is_empty), None)
        if first is not None and first is not segments[0]:  # a broker takes its base offset as the log start
            log_start = max(first.contents.base, self.start.log_start_offset)
            self.start = replace(self.start, log_start_offset=log_start)
        super()._load_segments()

    def _assembled(self) -> Assembled:
        """Returns the segments, without batches of another partition."""
        found = assemble(self._sources, self._scan_file, self.epochs)
        if not _is_odd(found):
            return found
        foreign = foreign_segments(self.workspace.directory, scratch=self._scratch)
        if not foreign:
            return found
        self._foreign = {os.path.basename(one.path): one for one in foreign}
        return assemble(self._sources, self._scan_file, self.epochs)

    def _relocate(self, drafts: list[SegmentDraft]) -> None:
        """Decides which batches each segment gets."""
        Relocation(drafts, self._others, self._load_parts, self._offsets_in_replica, self._evidence).run()

    def _arrange(self, drafts: list[SegmentDraft]) -> None:
        """Decides which batches each segment gets, and their epochs."""
        self._relocate(drafts)
        for draft in drafts:
            kept = draft.contents  # damage to a batch may have hit its epoch, too
            if kept.epochs_fall or (draft.is_changed and (kept.has_epochs or draft.extra or not kept.path)):
                self._load_parts(draft)
                repair_epochs(draft)

    def _without_stranded_end(self, drafts: list[SegmentDraft]) -> list[SegmentDraft]:
        """Returns the segments without empty ones after the last batch: they would move the log end, and a consumer
        would wait there forever."""
        ends = [draft.next_offset for draft in drafts if not draft.is_empty]
        if not ends or ends[-1] < self.start.log_start_offset:
            return drafts
        kept = [draft for draft in drafts if not (draft.is_empty and draft.contents.base > ends[-1])]
        for draft in drafts[len(kept) :]:
            self._remove(draft, f"holds no batch, and the log ends at offset {ends[-1]}")
        return kept

    def _leave_out(self, drafts: list[SegmentDraft], rejected: dict[int, Rejection]) -> None:
        """Removes the batches at these first offsets from their segments."""
        owners = {draft.contents.path: draft for draft in (*drafts, *self._others)}
        for draft in drafts:
            mine = {
                first: why for first, why in rejected.items() if draft.contents.base <= first <= draft.contents.limit
            }
            if mine:
                self._load_parts(draft)
            for part in draft.leave_out(mine):
                why = mine[part.first]
                owners[part.path or draft.contents.path].contents.cuts.add(
                    Damage(why.code, part.start, part.size, why.message)
                )

    def transaction_conflicts(self) -> dict[int, Rejection]:
        """Returns the batches to leave out, by first offset, after `run` has raised TransactionConflictError."""

        def headers() -> Iterator[HeaderRows]:
            for draft in self._drafted:
                self._load_parts(draft)
                yield from draft.layout().headers()

        return transaction_conflicts(headers, self._evidence.transactional)

    def _offsets_in_replica(self, _prints: set[bytes]) -> dict[bytes, int]:
        """Returns the first offsets of batches in another replica; nothing, because there is none."""
        return {}

    def _scan_file(self, name: str, base: int | None, behind: int | None) -> SegmentContents:
        if (stranger := self._foreign.get(name)) is not None:
            kept = new_segment(NO_OFFSET if base is None else base, behind)
            kept.path, kept.is_last = os.path.abspath(stranger.path), base is not None and behind is None
            text = f"{stranger.records} records of another partition: {stranger.reason}"
            kept.cuts.add(Damage(FOREIGN_BATCHES, 0, stranger.size, text))
            return kept
        with open_source(self.workspace.path(name)) as source:
            kept = scan_segment(source, base, behind, self._scratch, self.start.jobs, self._evidence, self._filter)
            if source.unreadable:
                self.workspace.unreadable.add(os.path.basename(source.path))
            return kept

    def _load_parts(self, draft: SegmentDraft) -> None:
        if draft.is_released:
            kept = draft.contents
            draft.restore_parts(self._scan_file(draft.file, kept.base, None if kept.is_last else kept.limit + 1).parts)

    def _remove_others(self) -> None:
        """Removes the files that make no segment."""
        for draft in self._others:
            is_foreign = draft.file in self._foreign
            self._remove(draft, _FOREIGN if is_foreign else "its batches belong to other segments, or are duplicates")

    def _remove(self, draft: SegmentDraft, reason: str) -> None:
        self.workspace.delete(draft.file, reason, self._recorded(draft))
        for suffix in INDEX_SUFFIXES if draft.file.endswith(LOG) else ():
            self.workspace.delete(draft.file.removesuffix(LOG) + suffix, reason)

    def _write_all(self, drafts: list[SegmentDraft]) -> None:
        """Writes the new segments to the workspace; an unchanged file may be renamed."""
        files, names = {draft.file for draft in drafts}, {draft.name for draft in drafts}
        written = []
        for draft in drafts:
            if draft.file == draft.name or draft.is_changed or draft.name in files:
                written.append(draft)
            else:
                self.workspace.rename(draft.file, draft.name, _MISNAMED)
        for draft in written:
            if draft.is_changed:
                self._write(draft)
            elif draft.file != draft.name:
                origin = os.path.basename(draft.contents.path)
                pieces = [Range(origin, 0, trees.getsize(draft.contents.path))]
                self.workspace.write(draft.name, pieces, _MISNAMED)
        for draft in written:
            if draft.file not in names:
                self._remove(draft, _MISNAMED)

    def _write(self, draft: SegmentDraft) -> None:
        """Writes a changed segment to the workspace."""
        workspace, name, layout, kept = self.workspace, draft.name, draft.layout(), draft.contents
        recorded = self._recorded(draft)
        removed = recorded if draft.file == name else []  # otherwise the old file is removed later
        reason = self._reason(draft)
        if kept.cuts.more:
            reason += f" ({kept.cuts.more} more than are listed)"
        if not len(layout) and not kept.is_last:
            for suffix in SEGMENT_SUFFIXES:
                workspace.delete(name.removesuffix(LOG) + suffix, reason, removed if suffix == LOG else ())
            return
        parts = list(layout) if len(layout) < 2 else []
        is_prefix = not len(layout) or (parts and parts[0].start == 0 and not (parts[0].head or parts[0].path))
        if is_prefix and draft.file == name:
            workspace.truncate(name, parts[0].end if parts else 0, reason, removed)
            return
        workspace.write(name, layout.content(os.path.basename(kept.path) or name), reason, removed)
        self._layouts[kept.base] = layout

    def _reason(self, draft: SegmentDraft) -> str:
        if draft.file in self._foreign:
            return _FOREIGN
        if not draft.contents.cuts:
            return "batches are moved to their offsets"
        is_damaged = any(not one.records for one in self._recorded(draft))
        return "damaged ranges are cut out" if is_damaged else "intact batches are left out"

    def _recorded(self, draft: SegmentDraft) -> list[Removed]:
        """Adds a segment to the result, once. Returns the removed ranges of its file."""
        if draft in self._removed:
            return self._removed[draft]
        found, cuts = self._result, draft.contents.cuts
        listed = sorted(cuts.listed, key=lambda cut: cut.position)
        losses = intact_in(draft.contents.path, listed, self._scratch)
        found.cuts += [(draft.file, cut) for cut in listed]
        found.intact |= {
            (draft.file, cut.position): loss for cut, loss in zip(listed, losses, strict=True) if loss.batches
        }
        found.more_cuts += cuts.more
        found.ambiguous += draft.contents.ambiguous
        found.moved += sum(self._is_moved(part) for part in draft.extra)
        found.repaired += (
            sum(bool(part.head) for part in draft.layout()) if draft.name and draft.has_repaired_headers else 0
        )
        self._removed[draft] = [
            Removed(cut.position, cut.length, f"{cut.code}: {cut.message}", *loss.offsets, loss.records or None)
            for cut, loss in zip(listed, losses, strict=True)
        ]
        return self._removed[draft]

    def _is_moved(self, part: SalvagedBatches) -> bool:
        """Whether batches come from another place in the partition."""
        return not part.head

    def _add_gaps(self, drafts: list[SegmentDraft]) -> None:
        """Adds the gaps to the plan: offsets that are missing afterwards, except those that the cleaner removed between
        unchanged batches, up to the offset that keys prove it has reached."""
        gaps = _gaps_of(drafts, False)
        is_sparse = any(draft.contents.is_sparse for draft in drafts)
        if gaps and (is_sparse or self._may_be_compacted()):
            is_sparse, cleaned = True, set(_gaps_of(drafts, True))
            before = max(first for first, _ in gaps)
            reach = cleaner_reach(self._batches(drafts), before)
            gaps = sorted(cleaned | {gap for gap in gaps if gap[0] > reach})
        self._gaps, self._result.is_compacted = gaps, is_sparse

    def _batches(self, drafts: list[SegmentDraft]) -> Iterator[Batch]:
        """Yields the batches of the new segments."""
        for draft in drafts:
            if not draft.is_changed:  # its parts may have been released
                with open_source(draft.contents.path) as source:
                    reader = SegmentReader(source, False, draft.contents.base, scratch=self._scratch)
                    yield from (item for item in reader if not isinstance(item, Damage))
                continue
            for part in draft.layout():
                with open_source(part.path or draft.contents.path) as source:
                    for batch in batches_of(source, part):
                        yield batch_of(source, batch, self._scratch)

    def _segment(self, stem: str, base: int) -> BrokerSegment:
        return SalvagedSegment(self.workspace, stem, base, self._layouts.get(base))

    def _load_segment(self, segment: BrokerSegment) -> None:
        """Does nothing: each segment is recovered later, whatever its indexes contain."""

    def _check_indexes(self) -> None:
        """Does nothing: all indexes are new."""

    def _recover_unflushed(self) -> None:
        """Recovers from the first segment on: transactions that began below the log start may end above it."""
        start = self.start
        lowest = min([start.log_start_offset, *self.segments])
        self.start = replace(start, log_start_offset=lowest)
        for segment in list(self.segments.values()):
            self._recover(segment)
        self.start = start


def _is_odd(found: Assembled) -> bool:
    """Whether batches of another partition may be the reason for what was found, besides damage. A partition of one
    segment has no other that shows it."""
    drafts = found.segments
    if found.others or len(drafts) == 1 or any(draft.contents.misplaced for draft in drafts):
        return True
    for draft in drafts:
        kept = draft.contents
        if kept.cuts or draft.is_empty:
            continue
        if kept.is_sparse:
            if not index_fits(kept.path):
                return True
            continue
        is_short = not kept.is_last and draft.next_offset <= kept.limit
        if is_short or any(first == kept.base for first, _ in draft.gaps(False)):
            return True
    return False


def _gaps_of(drafts: list[SegmentDraft], is_cleaned: bool) -> list[tuple[int, int]]:
    """Returns the ranges of missing offsets; ``is_cleaned``: as in `SegmentDraft.gaps`."""
    found: list[tuple[int, int]] = []
    reached, is_whole = drafts[0].contents.base if drafts else 0, False
    for draft in drafts:
        if draft.is_empty and draft.is_changed and not draft.contents.is_last:
            is_whole = False  # its files are removed
            continue
        if reached < draft.contents.base and not (is_cleaned and is_whole):  # its own bytes never contained these
            found.append((reached, draft.contents.base - 1))
        found += draft.gaps(is_cleaned and _may_be_cleaned(draft.contents))
        reached, is_whole = max(reached, draft.next_offset), draft.ends_as_it_was
    return found


def _may_be_cleaned(kept: SegmentContents) -> bool:
    """Whether a segment may have been cleaned. The active segment is not, unless its gaps show it; misplaced runs show
    nothing."""
    return not kept.is_last or (kept.is_sparse and not kept.misplaced)
