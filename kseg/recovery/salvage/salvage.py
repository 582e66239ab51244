"""``recover --mode salvage``: cuts damaged ranges out and keeps every intact batch at its own offset.

The partition is treated as a whole: intact batches are moved to their offsets, whatever segment they are in. A damaged
segment gets a new .log, or is truncated if only its end is damaged. Then the broker's recovery runs on all segments; it
finds nothing more to truncate, and builds all side files.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from kseg.changes.accepted_gaps import accepted_gaps
from kseg.changes.plan import Plan, Range, Removed, ReplicaOffsets
from kseg.errors import UnsupportedError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CLEANED, DELETED, INDEX_SUFFIXES, LOG, LOG_07, SEGMENT_SUFFIXES, SNAPSHOT, SWAP
from kseg.kernel.layout.headers import CONTROL, TRANSACTIONAL
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_STATE, FRAME_WIDTH, RECORDS_RIGHT
from kseg.kernel.scan.frames import WALK_RECORDS
from kseg.node.belonging import FOREIGN_BATCHES, Siblings, WeighedSegment, foreign_segments, index_fits
from kseg.recovery.broker.loading import PartitionLoad, delete_marked
from kseg.recovery.broker.producer_state import produced
from kseg.recovery.broker.segments import BrokerSegment, intact_in, remaining
from kseg.recovery.options import EPOCHS_REPAIRED, BrokerStart, repair_topic_id
from kseg.recovery.result import Cut, Salvage
from kseg.recovery.salvage.header_repair import OffsetEvidence, with_right_header
from kseg.recovery.salvage.relocation import Relocation
from kseg.recovery.salvage.segment_assembly import assemble, segment_sources
from kseg.recovery.salvage.segment_draft import SegmentDraft, batch_of, batches_of, repair_epochs
from kseg.recovery.salvage.segment_scan import BatchFilter, scan_segment
from kseg.recovery.workspace import BrokerRefusesError, TransactionConflictError, Workspace, leading_offset
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Batch, Damage, Problem
from kseg.segment.reader import open_segment
from kseg.segment.survey import HeaderRows, cleaner_reach
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES
from kseg.sidefiles.text_files import PARTITION_METADATA
from kseg.stores.place import Place
from kseg.stores.source import open_source

_MAX_ATTEMPTS = 3
_FOREIGN = "its batches belong to another partition"
_MISNAMED = "a segment is named by its base offset"


def plan_salvage(
    directory: str,
    start: BrokerStart,
    is_compacted: Callable[[], bool] = lambda: False,
    batch_filter: BatchFilter | None = None,
    make_attempt: "Callable[..., Attempt] | None" = None,
) -> Salvage:
    """Plans the salvage. ``is_compacted``: whether gaps may come from the log cleaner, called if the log does not show
    it; ``batch_filter``: the intact batches to drop; ``make_attempt``: has the parameters of `Attempt`.

    Batches that a broker's loader rejects are left out of a further attempt. Raises TransactionConflictError if it
    would reject the last one, too, and BrokerRefusesError if a broker would not start for another reason than damage of
    a .log.
    """
    make_attempt = partial(make_attempt or Attempt, directory, start, Scratch(), is_compacted)
    rejected: dict[int, Problem] = {}
    keeps_snapshots, batch_filter = True, batch_filter or BatchFilter()
    for _ in range(_MAX_ATTEMPTS - 1):
        attempt = make_attempt(batch_filter, rejected, keeps_snapshots)
        try:
            return attempt.plan()
        except TransactionConflictError:
            found = attempt.transaction_conflicts()
            # If no batch contradicts another one, the open transaction comes from a snapshot.
            rejected, keeps_snapshots = rejected | found, keeps_snapshots and bool(found)
    return make_attempt(batch_filter, rejected, keeps_snapshots).plan()


Forecast = tuple[int, list[tuple[int, int]], bool, list[tuple[str, int, int]]]
"""The offset after the last batch, the missing offsets before it, whether damaged bytes are cut out; and path, first
and last offset of what each file gives to a segment."""


def forecast_salvage(directory: str, start: BrokerStart, scratch: Scratch) -> Forecast:
    """Decides only which batches each segment gets; of most intact batches it reads the headers. Raises as
    `plan_salvage`."""
    start = replace(start, interval_bytes=DEFAULT_INTERVAL_BYTES)  # no index is built
    return Attempt(directory, start, scratch, lambda: False, BatchFilter()).forecast()


class SalvagedSegment(BrokerSegment):
    """A segment that is kept whole, however large its batches are. ``drafts``: the changed segments by base offset; any
    other is an unchanged file."""

    def __init__(self, workspace: Workspace, drafts: Mapping[int, SegmentDraft], stem: str, base_offset: int) -> None:
        super().__init__(workspace, stem, base_offset)
        self._draft = drafts.get(base_offset)

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[HeaderRows]:
        yield from super().headers(position) if self._draft is None else self._draft.headers(position)

    def read(self, position: int, length: int) -> bytes:
        return super().read(position, length) if self._draft is None else self._draft.read(position, length)


class Attempt:
    """One attempt to salvage a partition; call `plan` or `forecast` once.

    ``rejected``: the batches that a broker's loader rejects, by first offset; without ``keeps_snapshots`` it rejects
    all existing snapshots too. ``siblings``: as of `foreign_segments`.
    """

    def __init__(
        self,
        directory: str,
        start: BrokerStart,
        scratch: Scratch,
        is_compacted: Callable[[], bool],
        batch_filter: BatchFilter,
        rejected: Mapping[int, Problem] | None = None,
        keeps_snapshots: bool = True,
        siblings: Siblings | None = None,
    ) -> None:
        self.workspace = start.workspace(directory)
        self.scratch, self._siblings = scratch, siblings
        self._sources = segment_sources(self.workspace)
        self._source_names = {source.name for source in self._sources}
        for name in () if keeps_snapshots else self._snapshots():
            self.workspace.delete(name, "contradicts the batches: a producer would write outside of its transaction")
        self._topic_ids = start.topic_ids if start.era.has_topic_ids else None
        # No producer expires: here the contents of snapshots matter more than their age.
        epochs = max(start.epochs, EPOCHS_REPAIRED)
        start = replace(start, was_clean=False, recovery_point=0, now_ms=0, epochs=epochs, topic_ids=None)
        self._written: dict[int, SegmentDraft] = {}
        """Changed segments by base offset."""
        self.load = PartitionLoad(self.workspace, start, partial(SalvagedSegment, self.workspace, self._written))
        self._filter = batch_filter
        self._rejected = rejected or {}
        self._may_be_compacted = is_compacted
        self._evidence = OffsetEvidence(self.workspace)
        self._foreign: dict[str, WeighedSegment] = {}
        self.drafts: list[SegmentDraft] = []
        """The segments, sorted."""
        self.others: list[SegmentDraft] = []
        """Files that make no segment."""
        self._removed: dict[SegmentDraft, list[Removed]] = {}
        """The removed ranges of its file, for each segment: a new one may have the name of another's file."""
        self._result = Salvage(directory, Plan(directory), 0)
        self.from_replica: list[ReplicaOffsets] = []
        """The offsets that come from another replica, and those not taken."""
        self.replica_bases: Mapping[str, int] = {}
        """The base offsets of the replica's files, by path."""

    def plan(self) -> Salvage:
        """Returns the result. Raises TransactionConflictError if a broker's loader rejects batches."""
        self._clear()
        self._assemble()
        for draft in self.drafts:  # damage to a batch may have hit its epoch, too
            if draft.epochs_fall or draft.is_changed:
                repair_epochs(draft)
        self.fill()
        self.leave_out(self._rejected)
        load, drafts = self.load, self.drafts
        if not all(draft.is_empty for draft in drafts) and drafts[-1].next_offset < load.start.log_start_offset:
            # A broker would delete all segments of a log that ends below its start.
            self._result.log_start = drafts[0].base
            load.start = replace(load.start, log_start_offset=drafts[0].base)
        segments = self._without_stranded_end()
        self._write_all(segments)
        gaps = self._gaps([draft for draft in self.drafts if draft in segments or draft.is_changed])
        if full := [draft for draft in segments if not draft.is_empty]:
            # Entries of lost batches would prevent the leader epochs of the kept batches from being added.
            load.epochs.truncate_from_end(full[-1].next_offset)
            if full[0] is not segments[0]:  # a broker takes the base offset of an empty first segment as the log start
                log_start = max(full[0].base, load.start.log_start_offset)
                load.start = replace(load.start, log_start_offset=log_start)
        load.rebuild()
        return self._finished(gaps)

    def forecast(self) -> Forecast:
        """Returns the result of `forecast_salvage`."""
        self._assemble()
        segments = self._without_stranded_end()
        for draft in (*self.drafts, *self.others):
            self._recorded(draft)
        holes = _gaps_of([draft for draft in self.drafts if draft in segments or draft.is_changed], False)
        next_offset = max((draft.next_offset for draft in segments), default=0)
        sources = [(part.path, part.first, part.last) for draft in segments for part in draft.extra]
        sources += [(one.path, one.parts[0].first, one.parts[-1].last) for one in segments if len(one.parts)]
        return next_offset, holes, not all(cut.loss.batches for cut in self._result.cuts), sources

    def fill(self) -> None:
        """Puts batches that only another replica has into the segments, and takes those with wrong offsets out."""

    def known_offsets(self, _prints: set[bytes]) -> dict[bytes, int]:
        """Returns the first offsets that batches have in another replica, by `fingerprint`."""
        return {}

    # What a broker's start would stop at, and what it would remove

    def _snapshots(self) -> list[str]:
        """Returns the names of producer snapshots, except files that contain batches."""
        return [name for name in self.workspace.names(SNAPSHOT) if name not in self._source_names]

    def _clear(self) -> None:
        """Removes leftovers and misnamed snapshots; leftovers of a cleaning are treated like any other file with
        batches. Raises UnsupportedError if all segments are of 0.7."""
        workspace = self.workspace
        if not self._sources and workspace.names(LOG_07):
            raise UnsupportedError(
                f"{workspace.directory}: .kafka segments can only be recovered in mode broker: their offsets are "
                "positions, so nothing can be cut out of them; kseg dump shows the intact batches after damage"
            )
        for name in self._snapshots():
            if leading_offset(name) is None:
                workspace.delete(name, "its name is no offset: a broker does not start with it")
        remove_leftovers(workspace, self._source_names)

    # Segments and the places of their batches

    def _assemble(self) -> None:
        """Finds the segments, without batches of another partition, and decides which batches each one gets."""
        self.drafts, self.others = assemble(self._sources, self._scan_file, self.load.epochs)
        if _is_odd(self.drafts, self.others):
            foreign = foreign_segments(self.workspace.directory, scratch=self.scratch, siblings=self._siblings)
            self._foreign = {os.path.basename(one.path): one for one in foreign}
            if foreign:  # once more, without the files of another partition
                self.drafts, self.others = assemble(self._sources, self._scan_file, self.load.epochs)
        Relocation(self.drafts, self.others, self.known_offsets, self._evidence).run()

    def _without_stranded_end(self) -> list[SegmentDraft]:
        """Returns the segments up to the last batch: empty ones after it would let a consumer wait there forever."""
        drafts = self.drafts
        ends = [draft.next_offset for draft in drafts if not draft.is_empty]
        if not ends or ends[-1] < self.load.start.log_start_offset:
            return drafts
        kept = [draft for draft in drafts if not (draft.is_empty and draft.base > ends[-1])]
        for draft in drafts[len(kept) :]:
            self._remove(draft, f"holds no batch, and the log ends at offset {ends[-1]}")
        return kept

    def leave_out(self, rejected: Mapping[int, Problem]) -> None:
        """Removes the batches at these first offsets from their segments."""
        owners = {draft.path: draft for draft in (*self.drafts, *self.others)}
        for draft in self.drafts:
            mine = {first: why for first, why in rejected.items() if draft.base <= first <= draft.limit}
            if not mine:
                continue
            for part in draft.leave_out(mine):
                why = mine[part.first]
                owners[part.path or draft.path].cut_out(why.code, part.start, part.size, why.message)

    def transaction_conflicts(self) -> dict[int, Problem]:
        """Returns the batches to leave out, by first offset, of producers that write outside of their own open
        transaction: a broker does not start on such a log. To be called after `plan` has raised
        TransactionConflictError.

        ProducerAppendInfo.appendDataBatch of Kafka 4.3.1 raises InvalidTxnStateException for a batch that is not
        transactional while its producer has a transaction open. A producer is either transactional or not: the producer
        snapshots say which, else the kind of batch of which it has fewer is left out; markers are transactional. For
        equal numbers the kind that is rarer in the log is left out, then the kind with fewer records.
        """
        known = self._evidence.snapshots.transactional
        batches, records = Counter[tuple[int | None, bool]](), Counter[tuple[int | None, bool]]()
        for producer_id, attributes, _, count in self._produced():
            is_transactional = attributes & TRANSACTIONAL > 0
            batches[producer_id, is_transactional] += 1
            batches[None, is_transactional] += 1  # of all producers
            records[producer_id, is_transactional] += max(count, 0)

        def keeps_transactional(producer_id: int) -> bool:
            for counts, one in ((batches, producer_id), (batches, None), (records, producer_id)):
                if counts[one, True] != counts[one, False]:
                    return counts[one, True] > counts[one, False]
            return True

        found = dict[int, Problem]()
        open_firsts = defaultdict[int, list[int]](list)
        """The first offsets of the data batches of each producer's open transaction."""
        for producer_id, attributes, first, _ in self._produced():
            if attributes & CONTROL:
                open_firsts[producer_id].clear()
            elif attributes & TRANSACTIONAL:
                open_firsts[producer_id].append(first)
            elif open_firsts[producer_id]:
                text = f"producer {producer_id} writes outside of its open transaction: a broker does not load it"
                keeps_open = known.get(producer_id, keeps_transactional(producer_id))
                wrong = [first] if keeps_open else open_firsts.pop(producer_id)
                found |= dict.fromkeys(wrong, Problem("transaction-state", text))
        return found

    def _produced(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields the batches of the log that have a producer, as `produced`."""
        for draft in self.drafts:
            for headers in draft.headers():
                yield from produced(headers)

    def _scan_file(self, name: str, base: int | None, behind: int | None) -> SegmentDraft:
        if (stranger := self._foreign.get(name)) is not None:
            kept = SegmentDraft(Place(stranger.path).absolute, base, behind, file=name)
            text = f"{stranger.records} records of another partition: {stranger.reason}"
            kept.cut_out(FOREIGN_BATCHES, 0, stranger.size, text)
            return kept
        with open_source(self.workspace.path(name)) as source:  # it may have been marked as deleted
            kept = scan_segment(source, base, behind, self.scratch, self.load.start.jobs, self._evidence, self._filter)
            kept.file = name
            if source.unreadable:
                self.workspace.unreadable.add(os.path.basename(source.path))
            return kept

    # The new files

    def _remove(self, draft: SegmentDraft, reason: str) -> None:
        self.workspace.delete(draft.file, reason, self._recorded(draft))
        for suffix in INDEX_SUFFIXES if draft.file.endswith(LOG) else ():
            self.workspace.delete(draft.file.removesuffix(LOG) + suffix, reason)

    def _write_all(self, drafts: list[SegmentDraft]) -> None:
        """Removes files that make no segment, and writes the new segments; an unchanged file may be renamed."""
        for draft in self.others:
            is_foreign = draft.file in self._foreign
            self._remove(draft, _FOREIGN if is_foreign else "its batches belong to other segments, or are duplicates")
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
                pieces = [Range(os.path.basename(draft.path), 0, Place(draft.path).size())]
                self.workspace.write(draft.name, pieces, _MISNAMED)
        for draft in written:
            if draft.file not in names:
                self._remove(draft, _MISNAMED)

    def _write(self, draft: SegmentDraft) -> None:
        """Writes a changed segment to the workspace."""
        workspace, name = self.workspace, draft.name
        recorded = self._recorded(draft)
        removed = recorded if draft.file == name else []  # otherwise the old file is removed later
        reason = self._reason(draft)
        if draft.more_cuts:
            reason += f" ({draft.more_cuts} more than are listed)"
        if draft.is_empty and not draft.is_last:
            for suffix in SEGMENT_SUFFIXES:
                workspace.delete(name.removesuffix(LOG) + suffix, reason, removed if suffix == LOG else ())
            return
        parts = list(islice(draft, 2))
        is_prefix = not parts or (len(parts) == 1 and (parts[0].start, parts[0].head, parts[0].path) == (0, b"", ""))
        if is_prefix and draft.file == name:
            workspace.truncate(name, parts[0].end if parts else 0, reason, removed)
            return
        workspace.write(name, draft.content(os.path.basename(draft.path) or name), reason, removed)
        self._written[draft.base] = draft

    def _reason(self, draft: SegmentDraft) -> str:
        if any(part.path in self.replica_bases for part in draft.extra):
            return "filled from the replica" if draft.path else "copied from the replica"
        if draft.file in self._foreign:
            return _FOREIGN
        if not draft.cuts:
            return "batches are moved to their offsets"
        is_damaged = any(not one.records for one in self._recorded(draft))
        return "damaged ranges are cut out" if is_damaged else "intact batches are left out"

    def _recorded(self, draft: SegmentDraft) -> list[Removed]:
        """Adds a segment to the result, once. Returns the removed ranges of its file."""
        if draft in self._removed:
            return self._removed[draft]
        found, listed = self._result, sorted(draft.cuts, key=lambda cut: cut.position)
        removed = self._removed[draft] = list[Removed]()
        for cut, loss in zip(listed, intact_in(draft.path, listed, self.scratch), strict=True):
            found.cuts.append(Cut(draft.file, cut.position, cut.length, loss, message=cut.message))
            reason = f"{cut.code}: {cut.message}"
            removed.append(Removed(cut.position, cut.length, reason, *loss.offsets, loss.records or None))
        found.more_cuts += draft.more_cuts
        found.ambiguous += draft.ambiguous
        found.moved += sum(not (part.head or part.path in self.replica_bases) for part in draft.extra)
        found.repaired += draft.repaired if draft.name else 0
        return removed

    def _gaps(self, drafts: list[SegmentDraft]) -> list[tuple[int, int]]:
        """Returns the gaps of the plan: offsets that are missing afterwards, except those that the cleaner removed
        between unchanged batches, up to the offset that keys prove it has reached."""
        gaps = _gaps_of(drafts, False)
        is_sparse = any(draft.is_sparse for draft in drafts)
        if gaps and (is_sparse or self._may_be_compacted()):
            is_sparse, cleaned = True, set(_gaps_of(drafts, True))
            reach = cleaner_reach(self._batches(drafts), before=max(first for first, _ in gaps))
            gaps = sorted(cleaned | {gap for gap in gaps if gap[0] > reach})
        self._result.is_compacted = is_sparse
        return gaps

    def _batches(self, drafts: list[SegmentDraft]) -> Iterator[Batch]:
        """Yields the batches of the new segments."""
        for draft in drafts:
            for source, part in draft.with_sources():
                for batch in batches_of(source, part):
                    yield batch_of(source, batch, self.scratch)

    def _finished(self, gaps: list[tuple[int, int]]) -> Salvage:
        found, load, directory = self._result, self.load, self.workspace.directory
        topic_problem = ""
        try:
            if self._topic_ids:
                topic_problem = repair_topic_id(self.workspace, self._topic_ids, load.start.name)
        except BrokerRefusesError as error:  # the log is salvaged even if the topic id is lost
            self.workspace.delete(PARTITION_METADATA, "cannot be read: a broker does not start with it")
            topic_problem = str(error).removeprefix(f"{directory}/")
        found.plan, found.next_offset = self.workspace.plan(), load.next_offset
        accepted = accepted_gaps(directory).among(gaps, min(load.segments, default=0))
        found.plan.gaps = [gap for gap in gaps if gap not in accepted]
        found.plan.from_replica = self.from_replica
        found.remains = [one for one in remaining(directory, load.segments, load.remains) if not one.missing]
        found.unrepaired = "; ".join(filter(None, (*load.unrepaired, topic_problem)))
        found.not_dropped = sorted(self._filter.offsets - self._filter.dropped_offsets)
        return found


def _is_odd(drafts: list[SegmentDraft], others: list[SegmentDraft]) -> bool:
    """Whether batches of another partition may be the reason for what was found, besides damage. A partition of one
    segment has no other that shows it."""
    if others or len(drafts) == 1 or any(draft.misplaced for draft in drafts):
        return True
    for draft in drafts:
        if draft.cuts or draft.is_empty:
            continue
        if draft.is_sparse:
            if not index_fits(draft.path):
                return True
            continue
        is_short = not draft.is_last and draft.next_offset <= draft.limit
        if is_short or any(first == draft.base for first, _ in draft.gaps(False)):
            return True
    return False


def _gaps_of(drafts: list[SegmentDraft], is_cleaned: bool) -> list[tuple[int, int]]:
    """Returns the ranges of missing offsets; ``is_cleaned``: as in `SegmentDraft.gaps`."""
    found: list[tuple[int, int]] = []
    reached, is_whole = drafts[0].base if drafts else 0, False
    for draft in drafts:
        if draft.is_empty and draft.is_changed and not draft.is_last:
            is_whole = False  # its files are removed
            continue
        if reached < draft.base and not (is_cleaned and is_whole):  # its own bytes never contained these
            found.append((reached, draft.base - 1))
        # The active segment was not cleaned, unless its gaps show it; misplaced runs show nothing.
        may_be_cleaned = not draft.is_last or (draft.is_sparse and not draft.misplaced)
        found += draft.gaps(is_cleaned and may_be_cleaned)
        reached, is_whole = max(reached, draft.next_offset), draft.ends_as_it_was
    return found


def remove_leftovers(workspace: Workspace, sources: Container[str]) -> None:
    """Removes files that a broker removes when it starts, or that keep it from starting, except ``sources``."""
    delete_marked(workspace)
    for name in workspace.names():
        if name in sources or name.endswith(DELETED):
            continue
        if name.endswith((SWAP, CLEANED)):
            workspace.delete(name, "was left by an unfinished cleaning, and has no batches")
        elif name.endswith(INDEX_SUFFIXES):
            stem, _, rest = name.partition(".")
            is_of_broker = len(stem) == 20 and stem.isascii() and stem.isdigit() and leading_offset(name) is not None
            if not is_of_broker or "." in rest:
                workspace.delete(name, "belongs to no segment")


def files_of(directory: str) -> list[SegmentFile]:
    """Returns the files of a partition directory from which salvage takes batches. Raises PathError."""
    workspace = Workspace(directory)
    return [segment_file(workspace.path(source.name)) for source in segment_sources(workspace)]


def broken_batches(file: SegmentFile, scratch: Scratch) -> Iterator[Batch]:
    """Yields the batches of a file whose records are unproven, except those whose header can be repaired: their
    checksum is wrong, or their records cannot be decoded. Salvage removes the former, and the latter on request. Single
    records in them may still be decodable: they are printed, and never written to a log.

    Includes batches that are truncated or have a wrong length. Raises PathError if the file cannot be read.
    """
    with open_segment(file, scratch, scan_options=WALK_RECORDS) as reader:
        for item in reader.runs():
            if isinstance(item, Damage):
                batch = reader.broken_batch(item)
                if batch is not None and with_right_header(reader.source, item.position, item.length) is None:
                    yield batch
                continue
            states = item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            for i, state in enumerate(states):
                if state & RECORDS_RIGHT:
                    continue
                batch = reader.batch(item, i)
                if state & CRC_RIGHT:
                    is_unproven = any(problem.code == "undecodable-records" for problem in batch.check())
                else:
                    is_unproven = with_right_header(reader.source, batch.position, batch.size) is None
                if is_unproven:
                    yield batch
