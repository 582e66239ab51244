"""``recover --mode broker``: loads a partition as a broker's start does, on a workspace (Kafka's LogLoader.load).

1. The leftovers of a crash are handled (`handle_leftovers`).
2. Index files without a .log are removed. A segment without .index, or with indexes that the era finds wrong, is
   recovered. If the offsets of a segment overflow the 32-bit index, it is split, and the load starts again.
3. After an unclean stop, segments from the recovery point on are recovered: truncated at the first invalid batch. All
   later segments are removed.
4. Leader epochs are truncated to the log. Producer snapshots without a segment are removed, and one is taken at the
   end.

The rules are those of 4.4; `kseg.releases.release` has the differences of earlier releases.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, starmap
from typing import NamedTuple

from kseg.changes.plan import Piece, Removed
from kseg.formats.suffixes import (
    CHECKPOINT,
    CLEANED,
    DELETED,
    INDEX,
    INDEX_SUFFIXES,
    LOG,
    LOG_07,
    LOGS,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
)
from kseg.kernel.layout.headers import MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_POSITION, FRAME_STATE, FRAME_WIDTH, be32, be64
from kseg.kernel.state.indexing import EpochState
from kseg.node.index_interval import interval_of
from kseg.quantities import show_time
from kseg.recovery.broker import segments
from kseg.recovery.broker.producer_state import ProducerStateManager
from kseg.recovery.broker.segments import BrokerSegment, LeaderEpochs, LogEnd, ReplayResult, SegmentOf, SegmentRemains
from kseg.recovery.leftovers import only_copies
from kseg.recovery.options import EPOCHS_KEPT, EPOCHS_REBUILT, BrokerStart, repair_topic_id
from kseg.recovery.result import Cut, Loss, Recovery
from kseg.recovery.workspace import BrokerRefusesError, File, Workspace, leading_offset
from kseg.releases.release import SWAP_LOG_RENAMED, SWAP_RECOVERED, Era
from kseg.segment.files import LAST_OFFSET, directory_name, segment_stem
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.segment.survey import HeaderRows
from kseg.segment.writer import LARGEST_DELTA
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs, read_leader_epochs, starting_at
from kseg.sidefiles.indexes import TRANSACTION_VERSION, TransactionIndex, build_transaction_index
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import MARKER_SETS_OFFSET
from kseg.stores.source import check_readable


def index_problem(segment: BrokerSegment, era: Era) -> str | None:
    """Returns a problem for which a broker's start rejects the indexes (sanityCheck of OffsetIndex, TimeIndex and
    TransactionIndex), None if there is none. Since 2.3 only the transaction index is checked. The segment has an offset
    index.

    Raises BrokerRefusesError for a transaction index that stops a broker.
    """
    workspace = segment.workspace
    if era.checks_indexes:
        if problem := offset_index_problem(segment, era):
            return problem
        name, width = segment.name(TIME_INDEX), TIME_ENTRY.size
        if era.has_time_index and name in workspace:
            size = workspace.size(name)
            if size >= width:
                first, _ = TIME_ENTRY.unpack(workspace.read_range(name, 0, width))
                last, relative = TIME_ENTRY.unpack(workspace.read_range(name, (size // width - 1) * width, width))
                if last < first or relative < 0:
                    return f"{name}: the last entry is of {show_time(last)}"
            if size % width:
                return f"{name}: {size} bytes are no whole number of entries"
    name = segment.name(TRANSACTION_INDEX)
    if not era.has_producers or name not in workspace:
        return None
    for entry in TransactionIndex(workspace.read(name), segment.base_offset):
        # Brokers up to 4.3 rebuild an index for this, as long as they accept the version.
        is_too_low = entry.last_offset < segment.base_offset
        if entry.version_as_kafka_reads_it > 0 or (entry.version and era.refuses_index_versions and not is_too_low):
            raise BrokerRefusesError(
                f"{workspace.directory}/{name}: has a version that stops a broker; kseg reindex rebuilds it, "
                "kseg recover --mode salvage leaves one out that is still a .swap"
            )
        if is_too_low:
            return f"{name}: an entry ends at offset {entry.last_offset}"
    return None


def offset_index_problem(segment: BrokerSegment, era: Era) -> str | None:
    """Returns a problem of the offset index, None if there is none or no such file."""
    name, workspace = segment.name(INDEX), segment.workspace
    if name not in workspace:
        return None
    size = workspace.size(name)
    last = segment.last_indexed()
    if size >= OFFSET_ENTRY.size and last < segment.base_offset + era.empty_index_is_at_base:
        return f"{name}: the last entry is at offset {last}"
    return f"{name}: {size} bytes are no whole number of entries" if size % OFFSET_ENTRY.size else None


def correct_index_versions(segment: BrokerSegment) -> None:
    """Rewrites a transaction index whose entries are right but for their versions.

    Since 4.4 a broker does not start on another version than 0. Other wrong indexes are rebuilt with their segment, if
    brokers up to 4.3 do that.
    """
    name, workspace = segment.name(TRANSACTION_INDEX), segment.workspace
    if name in workspace:
        index = TransactionIndex(workspace.read(name), segment.base_offset)
        right = [entry._replace(version=TRANSACTION_VERSION) for entry in index]
        problems = starmap(index.problem, zip(right, [None, *right], strict=False))
        has_others = index.size % index.LAYOUT.size or any(problems)
        if any(entry.version for entry in index) and not has_others:
            reason = "with version 0, the only one on which a broker starts"
            workspace.write(name, [build_transaction_index(right)], reason)


# Leftovers: the first step of a load removes or renames the files of a crash (.deleted, .cleaned, .swap), by era.
#
# A .swap is a complete new segment that replaces others, after compaction or a split (KAFKA-6264). Before 3.0 it is
# recovered when all others are loaded; since then it is only renamed.

_LOG_SWAP = LOG + SWAP


def delete_marked(workspace: Workspace) -> None:
    """Removes files marked as deleted, but for KRaft snapshots (Snapshots.DELETE_SUFFIX). Raises PathError."""
    names = [name for name in workspace.names(DELETED) if not name.endswith(CHECKPOINT + DELETED)]
    lost = only_copies(workspace.directory) if names else {}
    for name in names:
        workspace.delete(name, "was to be deleted", lost.get(name, ()))


def handle_leftovers(workspace: Workspace, era: Era) -> list[str]:
    """Removes and renames files as the era does. Returns the stems of .log.swap files that must be recovered or, since
    3.0, were renamed. Raises BrokerRefusesError for a name that stops a broker."""
    if not era.deletes_leftovers:
        return []
    delete_marked(workspace)
    swaps, cleaned = workspace.names(SWAP), workspace.names(CLEANED)
    for name in list(swaps) if era.swap_handling == SWAP_RECOVERED else ():
        # The indexes of a .swap, or those that it replaces, are rebuilt.
        kinds = INDEX_SUFFIXES if era.has_producers else (INDEX,)
        stem, dot, kind = name.removesuffix(SWAP).rpartition(".")
        if dot + kind in kinds and era.deletes_index_swaps:
            swaps.remove(name)
            workspace.delete(name, "belongs to a swap whose indexes are rebuilt")
        elif dot + kind in (*kinds, LOG):
            for each in kinds:
                workspace.delete(stem + each, "is replaced by a cleaned segment")
    if era.marks_splits:
        lowest = min((workspace.offset_of(name) for name in cleaned), default=LAST_OFFSET)
        for name in list(swaps):
            if workspace.offset_of(name) >= lowest:
                swaps.remove(name)
                workspace.delete(name, "is part of a split that was not finished")
    for name in cleaned:
        workspace.delete(name, "is output of a cleaning that was not finished")
    stems = [name.removesuffix(_LOG_SWAP) for name in swaps if name.endswith(_LOG_SWAP)]
    if era.swap_handling == SWAP_LOG_RENAMED:
        for name in swaps:
            target = name.removesuffix(SWAP)
            if target.endswith(INDEX):
                workspace.delete(name, "belongs to a swap whose indexes are rebuilt")
            elif target.endswith(LOG):
                workspace.delete(target.removesuffix(LOG) + INDEX, "is replaced by a cleaned segment")
                workspace.rename(name, target, "completes an interrupted swap")
        return []
    if era.swap_handling == SWAP_RECOVERED:
        return stems
    _rename_all(workspace, swaps, era.searches_by_first_offset)
    return stems


def _rename_all(workspace: Workspace, swaps: list[str], by_first: bool) -> None:
    """Replaces all segments from the base of the lowest new one to the end of the highest."""
    lowest, highest = LAST_OFFSET, -1
    for name in swaps:
        if name.endswith(_LOG_SWAP):
            base = workspace.offset_of(name)
            lowest = min(lowest, base)
            segment = BrokerSegment(workspace, name.removesuffix(_LOG_SWAP), base, SWAP)
            end = segment.log_end(by_first=by_first)
            if end.problem:
                raise segment.refusal(end.problem)
            highest = max(highest, end.offset)
    for name in workspace.names():
        if not name.endswith(SWAP) and (offset := leading_offset(name)) is not None and lowest <= offset < highest:
            workspace.delete(name, "is replaced by a cleaned segment")
    for name in swaps:
        workspace.rename(name, name.removesuffix(SWAP), "completes an interrupted swap")


def epoch_positions(headers: HeaderRows) -> Iterator[int]:
    """Yields the positions of leader epochs other than 0 in batches that have the field."""
    for magic, epoch, position in zip(headers.magics, headers.epochs, headers.positions, strict=True):
        if magic == MAGIC_V2 and epoch != 0:
            yield position + V2_LEADER_EPOCH


def reset_epochs(workspace: Workspace, segment: BrokerSegment) -> None:
    """Sets the leader epochs of the segment's .log in the workspace to 0, so that consumer groups of a new cluster can
    continue.

    A consumer that commits an offset stores the batch's leader epoch with it, and waits as long as the leader has a
    lower one. Checksums of batches do not cover the field.
    """
    pieces: list[Piece] = []
    done = 0
    for headers in segment.headers():
        for position in epoch_positions(headers):
            pieces += [*workspace.slice(segment.log, done, position - done), bytes(4)]
            done = position + 4
    if pieces:
        pieces += workspace.slice(segment.log, done, segment.size - done)
        workspace.write(segment.log, pieces, "leader epochs are set to 0")


_REASON = "its offsets overflow the 32-bit index of one segment"


def split(segment: BrokerSegment, outside: int) -> list[str]:
    """Replaces a segment whose offsets overflow the 32-bit index, 2^31 - 1 above the base offset, by its parts in the
    workspace, without indexes. Returns their names without suffix.

    Compaction by brokers before 1.0 could create such segments (KAFKA-6264). Since 2.0 a broker splits them when it
    starts (LocalLog.splitOverflowedSegment): a part ends before the first batch that does not fit, and the next part
    begins there.

    Raises BrokerRefusesError if a broker does not split it because no offset is too high, or fails in it.
    """
    workspace, log = segment.workspace, segment.log
    parts = _parts(segment, outside)
    ends = [*(start for _, start in parts[1:]), segment.size]
    pieces = [workspace.slice(log, start, end - start) for (_, start), end in zip(parts, ends, strict=True)]
    stems = [segment_stem(base) for base, _ in parts]
    if len(set(stems)) < len(stems) or any(stem != segment.stem and stem + LOG in workspace for stem in stems):
        raise _refusal(segment, outside, "and a part of it would take the path of another segment")
    for suffix in INDEX_SUFFIXES:
        workspace.delete(segment.name(suffix), _REASON)
    if stems[0] != segment.stem:
        workspace.rename(log, stems[0] + LOG, _REASON)
    workspace.truncate(stems[0] + LOG, ends[0], _REASON)
    for stem, content in list(zip(stems, pieces, strict=True))[1:]:
        workspace.write(stem + LOG, content, _REASON)
    return stems


def _parts(segment: BrokerSegment, outside: int) -> list[tuple[int, int]]:
    """Returns base offset and start position of each part."""
    end = segment.log_end(is_indexed=False, by_first=False)
    if end.problem or end.offset - 1 - segment.base_offset <= LARGEST_DELTA:
        raise _refusal(segment, outside, "and its last offset is not too high")
    position = 0
    parts: list[tuple[int, int]] = []
    for headers in segment.claimed(0):
        for last_offset, size, magic in zip(headers.lasts, headers.sizes, headers.magics, strict=True):
            if not parts or not 0 <= last_offset - parts[-1][0] <= LARGEST_DELTA:
                is_v2 = magic >= MAGIC_V2
                base = be64(segment.read(position, 8), 0) if is_v2 else segment.first_offset_at(position, size, magic)
                if not 0 <= last_offset - base <= LARGEST_DELTA or base < 0:
                    raise _refusal(segment, outside, f"and the batch at position {position} fits none")
                parts.append((base, position))
            position += size
    if position < segment.size:
        raise _refusal(segment, outside, f"and no batch begins at position {position}, where a broker looks for one")
    return parts


def _refusal(segment: BrokerSegment, outside: int, why: str) -> BrokerRefusesError:
    return segment.refusal(
        f"holds offset {outside}, which does not fit a segment that begins at {segment.base_offset}, {why}"
    )


class _ScanResult(NamedTuple):
    """What a scan depended on (the fingerprint of the producers at the segment's base, and the segment's files), and
    what it found: leader epochs with their start offsets, and the snapshot at the end, with its offset."""

    producers: int
    files: list[File | None]
    epochs: list[tuple[int, int]]
    snapshot: tuple[int, File] | None


class _OverflowError(Exception):
    """A segment was split; the load starts again."""


class PartitionLoad:
    """One load; call `run` or `rebuild` once.

    ``cuts``: the bytes removed from the log; ``scanned``: the .log files that were scanned; ``next_offset``: the log
    end afterwards; ``interval``: that of the indexes; ``remains``: the damage that scans found in each segment, by base
    offset; ``unrepaired``: sentences about other problems that remain, some of them empty.
    """

    def __init__(self, workspace: Workspace, start: BrokerStart, segment_of: SegmentOf | None = None) -> None:
        self.workspace = workspace
        self.start = start
        self._segment = segment_of or partial(BrokerSegment, workspace)
        self.interval = interval_of(workspace, start.interval_bytes, start.interval_source)
        self.segments: dict[int, BrokerSegment] = {}
        self._rebuilds_epochs = False
        self.epochs = self._read_epochs() if start.era.has_epochs else LeaderEpochs()
        self.unrepaired: list[str] = []
        self.producers = ProducerStateManager(workspace, start.now_ms, start.era, self.segments, self._segment)
        self.cuts: list[Cut] = []
        self.scanned: list[str] = []
        self.next_offset = 0
        self.remains: dict[int, SegmentRemains] = {}
        self._parts: set[str] = set()
        """Stems of the parts of split segments."""
        self._swapped: list[str] = []
        """Stems of .log.swap files to recover, or since 3.0 renamed; see `handle_leftovers`."""
        self._scans: dict[str, _ScanResult] = {}
        """Scans while segments are loaded, by the name of the .log."""
        self._is_loading = self._rebuilds_all = False

    def run(self, is_deleted: bool = False) -> None:
        """Loads the partition. ``is_deleted``: its name ends in -delete; its segments are not read.

        Raises BrokerRefusesError if a broker would not start.
        """
        for name in self.workspace.names(SNAPSHOT) if self.start.era.has_producers else ():
            self.workspace.offset_of(name)  # or no broker starts
        self._swapped = handle_leftovers(self.workspace, self.start.era)
        self._load(is_deleted)

    def rebuild(self) -> None:
        """Loads intact planned segments: recovers each, so that all side files are new. Raises BrokerRefusesError."""
        self._rebuilds_all = True
        self._load()

    def _load(self, is_deleted: bool = False) -> None:
        era = self.start.era
        self.producers.load_names()
        while True:
            try:
                self._load_segments()
                if is_deleted:  # its log end is not looked up
                    self._ensure_segment(0)
                else:
                    self.next_offset = self._recover_log()
                break
            except _OverflowError:
                self.segments.clear()
        if era.refuses_corrupt_indexes and not self._rebuilds_all:
            for segment in self.segments.values():
                if problem := offset_index_problem(segment, era):
                    raise BrokerRefusesError(
                        f"{self.workspace.directory}/{problem}: a broker does not start with it; "
                        "kseg reindex rebuilds it"
                    )
        if self.start.resets_epochs:
            for segment in self.segments.values():
                reset_epochs(self.workspace, segment)
            self.epochs = LeaderEpochs([EpochEntry(0, self._log_start)])
        if era.has_epochs and era.deletes_epochs_of_old_formats and self.producers.is_old_format():
            self.workspace.delete(LEADER_EPOCHS, "the log has no leader epochs: its format is older")
        elif era.has_epochs:
            self.epochs.truncate_from_end(self.next_offset)
            log_start = self.start.log_start_offset if era.starts_epochs_at_checkpoint else self._log_start
            self.epochs.entries = starting_at(self.epochs.entries, log_start)
            if LEADER_EPOCHS in self.workspace or self.epochs.entries:
                reason = "rebuilt from the batches" if self._rebuilds_epochs else "without epochs outside the log"
                self.workspace.write(LEADER_EPOCHS, [build_leader_epochs(self.epochs.entries)], reason)
        if era.has_producers:
            self._update_snapshots()
        if era.has_topic_ids and self.start.topic_ids is not None:
            self.unrepaired.append(repair_topic_id(self.workspace, self.start.topic_ids, self.start.name))

    # Step 2

    def _load_segments(self) -> None:
        workspace, era = self.workspace, self.start.era
        kinds = [INDEX, *[TIME_INDEX] * era.has_time_index, *[TRANSACTION_INDEX] * era.has_producers]
        self._is_loading = True
        for name in workspace.names():
            if name.endswith(tuple(kinds)):
                if segment_stem(workspace.offset_of(name)) + LOG not in workspace:
                    workspace.delete(name, "has no .log")
            elif name.endswith(LOG):
                base = workspace.offset_of(name)
                segment = self._segment(segment_stem(base), base)
                if name != segment.log and segment.log not in workspace:  # a name of another number of digits
                    workspace.write(segment.log, [b""], f"a broker makes it where it finds {name}")
                    self.unrepaired.append(
                        f"{name} is no name of a segment, and a broker makes an empty one at offset {base}: "
                        "consumers get nothing more of the segment before; kseg undo, move it away, and recover again"
                    )
                if not self._rebuilds_all:
                    self._load_segment(segment)
                if segment.log in workspace:
                    self.segments.setdefault(base, segment)
        if era.swap_handling == SWAP_RECOVERED:
            for stem in self._swapped:
                self._complete_swap(BrokerSegment(workspace, stem, workspace.offset_of(stem + LOG), SWAP))
            self._swapped = []
        in_order = sorted(self.segments.items())
        self.segments.clear()
        self.segments.update(in_order)
        self._is_loading = False

    def _load_segment(self, segment: BrokerSegment) -> None:
        """Recovers a segment with missing or wrong indexes. Rebuilds indexes that a broker would leave empty forever:
        lost ones in some releases, and those missing from a swap."""
        era, workspace = self.start.era, self.workspace
        has_index = segment.name(INDEX) in workspace
        if not has_index and era.refuses_lost_indexes:
            raise BrokerRefusesError(
                f"{segment.path}: has no index, without which this broker does not start; kseg reindex rebuilds it"
            )
        is_new = segment.stem in self._swapped or segment.stem in self._parts
        if has_index and era.refuses_index_versions:
            correct_index_versions(segment)
        if not has_index and (era.ignores_lost_indexes or is_new):
            self._reindex(segment)
        elif not has_index or (not era.refuses_corrupt_indexes and index_problem(segment, era)):
            self._recover(segment)
        elif era.has_time_index and segment.name(TIME_INDEX) not in workspace:
            self._reindex(segment)

    def _reindex(self, segment: BrokerSegment) -> None:
        """Rebuilds the missing ones of the offset and time index; all indexes of a part of a split."""
        files = self.workspace.files
        kept = {name: files[name] for kind in INDEX_SUFFIXES if (name := segment.name(kind)) in files}
        is_part = segment.stem in self._parts
        each = self._scan(segment)[1] if is_part else lambda headers: ReplayResult(headers.count, [])
        segment.recover(self.interval.size, self.start.era, each)
        files.update(kept)

    def _complete_swap(self, swap: BrokerSegment) -> None:
        """Recovers a .swap segment, which then replaces the old ones (before 3.0)."""
        self._recover(swap)
        base, end = swap.base_offset, self._end_of(swap).offset
        first = max((other for other in self.segments if other <= base), default=base)
        for other in [other for other in self.segments if first <= other < end]:
            if not self.start.era.marks_splits or self._end_of(self.segments[other]).offset > base:
                for kind in SEGMENT_SUFFIXES:
                    self.workspace.delete(self.segments[other].name(kind), "is replaced by a cleaned segment")
                del self.segments[other]
        for kind in SEGMENT_SUFFIXES:
            if swap.name(kind) in self.workspace:
                self.workspace.rename(swap.name(kind), swap.stem + kind, "completes an interrupted swap")
        self.segments[base] = self._segment(swap.stem, base)

    # Step 3

    def _recover(self, segment: BrokerSegment) -> int:
        """Recovers a segment (LogLoader.recoverSegment). Returns the number of bytes cut off."""
        era = self.start.era
        manager, each = self._scan(segment)
        # Most segments are scanned only once.
        producers = manager.fingerprint() if self._is_loading or segment.log in self._scans else 0
        epochs: list[tuple[int, int]] = []

        def add_epoch(epoch: int, start_offset: int) -> None:
            epochs.append((epoch, start_offset))
            if era.learns_epochs_while_loading or not self._is_loading:
                self.epochs.assign_from_batch(epoch, start_offset, era.lowest_scanned_epoch)

        if segment.log not in self.scanned:
            self.scanned.append(segment.log)
        if (known := self._recall(segment, producers)) is not None:
            for change in known.epochs:
                add_epoch(*change)
            if known.snapshot is not None:
                offset, file = known.snapshot
                manager.write_snapshot(offset, file.pieces)
            return 0
        found = segment.recover(self.interval.size, era, each, add_epoch)
        if found.outside is not None:
            self._parts.update(split(segment, found.outside))
            if era.keeps_snapshot_of_each_segment:
                self.producers.delete_snapshot(segment.base_offset, "belongs to a segment that was split")
            raise _OverflowError
        if found.is_refused:
            return self._empty(segment)
        cut = segment.size - found.valid_bytes
        if cut:
            self._cut(segment, found.valid_bytes, found.next_offset, "cut at the first batch that is not valid")
        if era.has_producers:
            manager.take_snapshot()
        if self._is_loading:
            end = manager.end_offset
            snapshot = (end, self.workspace.files[manager.offsets[end]]) if end in manager.offsets else None
            self._scans[segment.log] = _ScanResult(producers, self._files_of(segment), epochs, snapshot)
        return cut

    def _recall(self, segment: BrokerSegment, producers: int) -> _ScanResult | None:
        """Returns the results of an earlier scan of the same segment, None if there is none.

        A broker scans a segment without an index while it loads, and once more after an unclean stop. The second scan
        differs only if the producers at the segment's base do, because an earlier segment has made a new snapshot of
        them. A partition that has lost all its indexes is planned 1.7 times as fast.
        """
        found = self._scans.get(segment.log)
        is_same = found is not None and (found.producers, found.files) == (producers, self._files_of(segment))
        return found if is_same else None

    def _files_of(self, segment: BrokerSegment) -> list[File | None]:
        return [self.workspace.files.get(segment.name(suffix)) for suffix in SEGMENT_SUFFIXES]

    def _scan(self, segment: BrokerSegment) -> tuple[ProducerStateManager, Callable[[HeaderRows], ReplayResult]]:
        """Returns the producer state at the base of a segment, and the function that replays its batches."""
        era = self.start.era
        manager = self.producers.without_producers()
        if era.has_producers:
            manager.bring_to(self.start.log_start_offset, segment.base_offset)
        remains = SegmentRemains(segment)

        def each(headers: HeaderRows) -> ReplayResult:
            self.remains[segment.base_offset] = remains
            remains.add(headers)
            found = manager.replay(headers, segment.read)
            # A broker stops before it records the end of a batch whose marker it cannot read.
            ends = zip(headers.magics, headers.lasts, strict=True)
            v2_ends = [last + 1 for magic, last in islice(ends, found.batches - found.is_cut) if magic >= MAGIC_V2]
            manager.end_offset = v2_ends[-1] if v2_ends else manager.end_offset
            return found

        return manager, each

    def _cut(self, segment: BrokerSegment, position: int, next_offset: int, reason: str) -> None:
        """Truncates the .log, and records what is removed."""
        loss, length = self._loss(segment, position), segment.size - position
        self.cuts.append(Cut(segment.log, position, length, loss, next_offset))
        removed = Removed(position, length, reason, *loss.offsets, loss.records)
        self.workspace.truncate(segment.log, position, reason, [removed])

    def _loss(self, segment: BrokerSegment, position: int) -> Loss:
        """Returns what is lost from a position on; nothing is known for a part of a split."""
        if self.workspace.files[segment.log].origin is None:
            return Loss()
        return segments.lost_behind(self.workspace.path(segment.log), position)

    def _empty(self, segment: BrokerSegment) -> int:
        """Empties a segment (truncateTo(base)), whose index rejects an offset. Returns the number of bytes removed."""
        if self._is_loading:
            raise segment.refusal("has lost an index, and offsets that do not rise")
        reason, size = "an offset that does not rise: a broker empties the segment", segment.size
        self._cut(segment, 0, segment.base_offset, reason)
        self.remains.pop(segment.base_offset, None)
        for suffix in INDEX_SUFFIXES:
            if segment.stem + suffix in self.workspace:
                self.workspace.write(segment.stem + suffix, [b""], reason)
        return size

    def _recover_log(self) -> int:
        """Returns the log end."""
        start, era = self.start, self.start.era
        if self._rebuilds_epochs:
            self.epochs = LeaderEpochs(is_strict=era.has_strict_epochs)
        if self._rebuilds_all:
            # From the first segment on: transactions that began below the log start may end above it.
            self.start = replace(start, log_start_offset=min([start.log_start_offset, *self.segments]))
            for segment in list(self.segments.values()):
                self._recover(segment)
            self.start = start
        else:
            self._recover_unflushed()
        if self.segments:
            end = self._end_of(self._last).offset
            if end >= start.log_start_offset or not era.drops_log_below_start:
                return end
            for base in list(self.segments):
                self._drop(base, "the log ends below its start offset")
            if era.keeps_snapshot_of_each_segment:
                self.epochs.entries.clear()
                self.producers.start_at(start.log_start_offset)
        self._ensure_segment(start.log_start_offset if era.drops_log_below_start else 0)
        return self._end_of(self._last).offset

    def _end_of(self, segment: BrokerSegment) -> LogEnd:
        """Finds the end of a segment. Raises BrokerRefusesError if a broker would fail there."""
        found = segment.log_end(by_first=self.start.era.searches_by_first_offset)
        if found.problem and self.start.era.refuses_corrupt_tails:
            hint = "after a clean stop a broker does not start on it; --full scans the log and cuts it there"
            raise segment.refusal(found.problem, hint)
        if found.offset < 0 and not self.start.era.drops_log_below_start:
            raise segment.refusal("ends behind the last offset there is")
        return found

    def _ensure_segment(self, base: int) -> None:
        if self.segments:
            return
        stem = segment_stem(base)
        for suffix in (LOG, INDEX, TIME_INDEX) if self.start.era.has_time_index else (LOG, INDEX):
            self.workspace.write(stem + suffix, [b""], "a log has at least one segment")
        self.segments[base] = self._segment(stem, base)

    @property
    def _last(self) -> BrokerSegment:
        return self.segments[max(self.segments)]

    def _recover_unflushed(self) -> None:
        """Recovers the segments that a stop may not have flushed: none if it was clean."""
        bases = sorted(self.segments)
        first = max(bisect_right(bases, self.start.recovery_point) - 1, 0)
        if self.start.era.scans_last_only:
            first = max(len(bases) - 1, 0)
        if self.start.was_clean:
            first = len(bases)
        for base in bases[:first] if self._rebuilds_epochs else ():
            self._learn_epochs(self.segments[base])
        for number, base in enumerate(bases[first:], first + 1):
            if self._recover(self.segments[base]) > 0:
                for other in bases[number:]:
                    self.cuts[-1].dropped.append(self.segments[other].log)
                    self._drop(other, "is after the cut")
                return

    def _learn_epochs(self, segment: BrokerSegment) -> None:
        """Adds the epochs of a segment that is not scanned."""
        state = EpochState()
        for headers in segment.headers():
            for change in segments.epoch_changes(headers, state):
                self.epochs.assign_from_batch(*change)

    def _drop(self, base: int, reason: str) -> None:
        segment = self.segments.pop(base)
        loss = self._loss(segment, 0)
        if self.cuts:
            self.cuts[-1].loss.add(loss)
        for suffix in SEGMENT_SUFFIXES:
            removed = [Removed(0, segment.size, reason, *loss.offsets, loss.records)] if suffix == LOG else []
            self.workspace.delete(segment.stem + suffix, reason, removed)
        if self.start.era.keeps_snapshot_of_each_segment:
            self.producers.delete_snapshot(base, reason)

    # Step 4

    @property
    def _log_start(self) -> int:
        return max(self.start.log_start_offset, min(self.segments))

    def _update_snapshots(self) -> None:
        """Removes and takes snapshots as a broker does that starts and stops."""
        era, manager = self.start.era, self.producers
        if era.keeps_snapshot_of_each_segment:
            manager.remove_stray_snapshots(set(self.segments))
        else:
            manager.load_names()
        manager.rebuild(self._log_start, self.next_offset, self.start.was_clean)
        manager.check_first_unstable(self._log_start, self.next_offset)
        keeps_all = era.keeps_snapshot_of_each_segment
        if not (keeps_all or (self.start.was_clean and era.marker_effect == MARKER_SETS_OFFSET)):
            manager.delete_snapshots_below(sorted(self.segments)[-2:][0])

    def _read_epochs(self) -> LeaderEpochs:
        """Returns the epochs of the file; none if they are to be rebuilt from the batches."""
        how, none = self.start.epochs, LeaderEpochs(is_strict=self.start.era.has_strict_epochs)
        if LEADER_EPOCHS not in self.workspace or how == EPOCHS_REBUILT:
            self._rebuilds_epochs = how != EPOCHS_KEPT
            return none
        items = list(read_leader_epochs(self.workspace.read(LEADER_EPOCHS)))
        problems = [problem for problem in problems_of(items) if problem.code != "unsorted"]
        if problems and how == EPOCHS_KEPT:
            raise BrokerRefusesError(
                f"{self.workspace.directory}/{LEADER_EPOCHS}: {problems[0].message}: a broker does not start with it; "
                "--rebuild-epochs makes a new one from the batches"
            )
        if problems:
            self._rebuilds_epochs = True
            return none
        return LeaderEpochs(entries_of(items), self.start.era.has_strict_epochs)


def plan_partition(directory: str, start: BrokerStart) -> Recovery:
    """Plans the recovery. A partition with .kafka segments only is recovered as 0.7 does.

    Raises BrokerRefusesError if a broker would not start, PathError if the directory cannot be read.
    """
    workspace = start.workspace(directory)
    if start.era.is_07 or (workspace.names(LOG_07) and not workspace.names(LOG)):
        return _load_07(directory, workspace, start.was_clean)
    load = PartitionLoad(workspace, start)
    load.run(is_deleted=not start.name and directory_name(directory).endswith("-delete"))
    remains = segments.remaining(directory, load.segments, load.remains)
    unrepaired = "; ".join(filter(None, load.unrepaired))
    return Recovery(
        directory, workspace.plan(), load.next_offset, load.cuts, load.scanned, _logs_before(workspace), load.interval,
        remains, unrepaired,
    )  # fmt: skip


def _logs_before(workspace: Workspace) -> list[str]:
    return [name for name in workspace.statuses if name.endswith(LOGS) and name.partition(".")[0].isdigit()]


# Loads a partition of 0.6 and 0.7 as such a broker's start does (kafka.log.Log @0.7): .kafka segments, no other
# files. Offsets are byte positions.
#
# The name of a segment is its byte position in the whole log. It must end where the next one begins. After an unclean
# stop the last segment is truncated at the first message whose size or checksum is wrong; no other segment is read.

_SIZE_BYTES = 4
_MIN_SIZE = 5


def _load_07(directory: str, workspace: Workspace, was_clean: bool) -> Recovery:
    """Loads the partition. Raises BrokerRefusesError if such a broker would not start."""
    names = sorted(workspace.names(LOG_07), key=workspace.offset_of)
    if not names and workspace.names(LOG):
        raise BrokerRefusesError(f"{workspace.directory}: holds no .kafka segments: --era is not 0.7")
    if not names:
        names = [segment_stem(0) + LOG_07]
        workspace.write(names[0], [b""], "a log has at least one segment")
    for name, following in pairwise(names):
        if workspace.offset_of(name) + workspace.size(name) != workspace.offset_of(following):
            raise BrokerRefusesError(
                f"{workspace.directory}/{name}: does not end where {following} begins: a broker does not start"
            )
    last, is_scanned, cuts = names[-1], not was_clean and workspace.size(names[-1]) > 0, list[Cut]()
    base, size = workspace.offset_of(last), workspace.size(last)
    if is_scanned:
        with open_segment(workspace.path(last), is_07=True) as reader:
            end = _valid_end(reader, f"{workspace.directory}/{last}")
            if end < size:
                check_readable(reader.source.path)
                loss, reason = _lost(reader, end, base), "cut at the first message that is not valid"
                cuts.append(Cut(last, end, size - end, loss, base + end))
                removed = Removed(end, size - end, reason, None, None, loss.records)
                workspace.truncate(last, end, reason, [removed])
    return Recovery(
        directory, workspace.plan(), base + workspace.size(last), cuts, [last] * is_scanned, _logs_before(workspace)
    )


def _valid_end(reader: SegmentReader, path: str) -> int:
    """Returns the position of the first invalid message. Raises BrokerRefusesError if 0.7 throws an exception."""
    position = 0
    while position < reader.end:
        reader.begin_at(position)
        for item in reader.runs():
            if not isinstance(item, Run):
                break
            states = item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            wrong = next((i for i, state in enumerate(states) if not state & CRC_RIGHT), None)
            position = item.end if wrong is None else int(item.rows[wrong * FRAME_WIDTH + FRAME_POSITION])
            if wrong is not None:
                break
        if position < reader.end:
            size = _message_size(reader, position, path)
            if not size:
                break
            position += size
    return position


def _message_size(reader: SegmentReader, position: int, path: str) -> int:
    """Returns the size of the message at a position by 0.7's own rules, 0 if there is none or its checksum is wrong."""
    left = reader.end - position - _SIZE_BYTES
    if left < _MIN_SIZE:
        return 0
    head = bytes(reader.buffer[position : position + _SIZE_BYTES + 1])
    size, magic = be32(head, 0), head[_SIZE_BYTES]
    if size < _MIN_SIZE or size > left:
        return 0
    if magic > 1 or size < _MIN_SIZE + magic:
        raise BrokerRefusesError(
            f"{path}: the message at position {position} has magic {magic} and {size} bytes, at which this broker does "
            "not start; kseg dump shows the bytes after it"
        )
    return 0 if reader.frame_at(position) is None else _SIZE_BYTES + size


def _lost(reader: SegmentReader, position: int, base: int) -> Loss:
    """Returns the intact messages from a position on as a loss."""
    found = Loss()
    reader.begin_at(position)
    for item in reader.runs():
        if isinstance(item, Damage):
            continue
        for at in range(0, item.count * FRAME_WIDTH, FRAME_WIDTH):
            if item.rows[at + FRAME_STATE] & CRC_RIGHT:
                offset = base + item.rows[at + FRAME_POSITION]
                found.add(Loss(1, 1, offset, offset))
    return found
