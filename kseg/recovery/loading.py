"""Loads a partition as a broker's start does, on a workspace: Kafka's LogLoader.load of 4.3, step by step.

1. Leftovers: .deleted goes; .cleaned goes, with every .swap from the lowest .cleaned on; segments that a .swap replaces
   go, and .swap loses its suffix.
2. Index files without a .log go; a segment without .index, or with a wrong .txnindex, is recovered.
3. After an unclean stop, segments from the recovery point on are recovered: cut at the first batch that is not valid,
   and all later segments dropped.
4. Leader epochs are cut to the log; producer snapshots that belong to no segment go, and one is taken at the end.
"""

from dataclasses import dataclass, field

from kseg.changes.plan import Removed
from kseg.errors import KsegError
from kseg.kernel.native import BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_PRODUCER_ID, BATCH_WIDTH
from kseg.kernel.producers import OUTSIDE
from kseg.recovery.epochs import LeaderEpochs
from kseg.recovery.losses import Loss, lost_behind
from kseg.recovery.producers import ProducerStateManager
from kseg.recovery.segments import (
    DEFAULT_INTERVAL_BYTES,
    INDEX,
    LOG,
    SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    BrokerSegment,
    Era,
)
from kseg.recovery.workspace import Workspace
from kseg.segment.survey import Headers
from kseg.sidefiles.leader_epochs import build_leader_epochs, read_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.transaction_index import AbortedTxn, TransactionIndex

EPOCH_FILE = "leader-epoch-checkpoint"
_LONG_MAX = (1 << 63) - 1


class BrokerRefusesError(KsegError):
    """A broker would not start on this; the message says why, and what helps."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a broker's start knows of the partition before it looks into it."""

    was_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    now_ms: int = 0
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    era: Era = field(default_factory=Era)


@dataclass(slots=True)
class Cut:
    """What recovery takes away: bytes of ``file`` from ``position`` on, and whole later segments."""

    file: str
    position: int
    length: int
    next_offset: int
    dropped: list[str] = field(default_factory=list)
    loss: Loss = field(default_factory=Loss)


class PartitionLoad:
    """One load; `run` does it. ``cuts`` tells what was taken from the log, ``next_offset`` is the log end then."""

    def __init__(self, workspace: Workspace, start: Start) -> None:
        self.workspace = workspace
        self.start = start
        self.segments: dict[int, BrokerSegment] = {}
        self.epochs = self._read_epochs()
        self.producers = ProducerStateManager(workspace, start.now_ms)
        self.cuts: list[Cut] = []
        self.scanned: list[str] = []
        self.next_offset = 0

    def run(self, is_deleted: bool = False) -> None:
        """``is_deleted``: the directory's name ends in -delete, it is loaded without being looked into.

        Raises BrokerRefusesError where a broker would not start.
        """
        self._finish_swaps(self._remove_leftovers())
        self._load_segments()
        start = self.start
        next_offset = 0
        if is_deleted:
            self._ensure_segment(0)
        else:
            next_offset = self._recover_log()
        self.next_offset = next_offset
        self.epochs.truncate_from_end(next_offset)
        log_start = max(start.log_start_offset, min(self.segments))
        self.epochs.truncate_from_start(start.log_start_offset)
        self._write_epochs()
        if start.era.has_producers:
            self.producers.remove_stray_snapshots(set(self.segments))
            self._rebuild_producers(self.producers, log_start, next_offset, start.was_clean)

    # Step 1

    def _remove_leftovers(self) -> list[str]:
        workspace, swaps, cleaned = self.workspace, [], []
        for name in workspace.names():
            if name.endswith(".deleted") and not name.endswith(".checkpoint.deleted"):
                workspace.delete(name, "was to be deleted")
            elif name.endswith(".cleaned"):
                cleaned.append(name)
            elif name.endswith(".swap"):
                swaps.append(name)
        lowest = min((offset_of(name) for name in cleaned), default=_LONG_MAX)
        kept = []
        for name in swaps:
            if offset_of(name) >= lowest:
                workspace.delete(name, "is part of a split that was not finished")
            else:
                kept.append(name)
        for name in cleaned:
            workspace.delete(name, "is output of a cleaning that was not finished")
        return kept

    def _finish_swaps(self, swaps: list[str]) -> None:
        workspace = self.workspace
        lowest, highest = _LONG_MAX, -1
        for name in swaps:
            if name.endswith(".log.swap"):
                base = offset_of(name)
                lowest = min(lowest, base)
                highest = max(highest, _SwapSegment(workspace, name.removesuffix(".log.swap"), base).read_next_offset())
        for name in workspace.names():
            if not name.endswith(".swap") and (offset := _leading_offset(name)) is not None:
                if lowest <= offset < highest:
                    workspace.delete(name, "is replaced by a cleaned segment")
        for name in swaps:
            workspace.rename(name, name.removesuffix(".swap"), "completes a swap that was begun")
        self._swapped = {name.removesuffix(".log.swap") for name in swaps if name.endswith(".log.swap")}

    # Step 2

    def _load_segments(self) -> None:
        workspace = self.workspace
        for name in workspace.names():
            if name.endswith((INDEX, TIME_INDEX, TXN_INDEX)):
                stem = f"{offset_of(name):020d}"
                if stem + LOG not in workspace:
                    workspace.delete(name, "has no .log")
            elif name.endswith(LOG):
                base = offset_of(name)
                segment = BrokerSegment(workspace, name.removesuffix(LOG), base)
                if segment.stem + INDEX not in workspace or not self._is_sane(segment):
                    self._recover(segment)
                elif self._is_left_empty(segment):
                    self._reindex(segment)
                if segment.log in workspace:
                    self.segments.setdefault(base, segment)
        self.segments = dict(sorted(self.segments.items()))

    def _is_sane(self, segment: BrokerSegment) -> bool:
        """TransactionIndex.sanityCheck, the only check of an index that a start makes since 2.3."""
        name = segment.stem + TXN_INDEX
        if name not in self.workspace:
            return True
        index = TransactionIndex(self.workspace.read(name), segment.base_offset)
        for entry in index:
            if entry.version >> 8:
                raise BrokerRefusesError(
                    f"{self.workspace.directory}/{name}: has a version that stops a broker; kseg reindex rebuilds it"
                )
            if entry.last_offset < segment.base_offset:
                return False
        return True

    def _is_left_empty(self, segment: BrokerSegment) -> bool:
        """Whether a broker would leave an index empty for good that it does not scan: of a swap, or a lost one."""
        if not self.start.era.has_time_index:
            return False
        is_swapped = segment.stem in self._swapped and f"{segment.stem}{INDEX}.swap" not in self._swapped_indexes
        return is_swapped or segment.stem + TIME_INDEX not in self.workspace

    @property
    def _swapped_indexes(self) -> set[str]:
        return set()

    def _reindex(self, segment: BrokerSegment) -> None:
        """Rebuilds the offset and time index alone."""
        segment.recover(self.start.interval_bytes, self.start.era, lambda _: [], lambda *_: None)

    # Step 3

    def _recover(self, segment: BrokerSegment) -> int:
        """LogLoader.recoverSegment: the bytes that are cut off."""
        manager = ProducerStateManager(self.workspace, self.start.now_ms)
        era = self.start.era
        if era.has_producers:
            self._rebuild_producers(manager, self.start.log_start_offset, segment.base_offset, False)

        def each(headers: Headers) -> list[AbortedTxn]:
            if not era.has_producers:
                return []
            found = self._take_up(manager, headers.rows, headers.count)
            last = headers.rows[(headers.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET]
            manager.end_offset = last + 1
            return found or []

        self.scanned.append(segment.log)
        found = segment.recover(self.start.interval_bytes, era, each, self.epochs.assign_from_batch)
        if found.outside is not None:
            raise BrokerRefusesError(
                f"{self.workspace.directory}/{segment.log}: holds offset {found.outside}, which does not fit a segment "
                f"that begins at {segment.base_offset}; a broker does not start on it: kseg recover --mode salvage"
            )
        if found.refused:
            size = segment.size
            self._empty(segment)
            return size
        cut = segment.size - found.valid_bytes
        if cut:
            self._cut(segment, found.valid_bytes, found.next_offset, "cut at the first batch that is not valid")
        if era.has_producers:
            manager.take_snapshot()
        return cut

    def _cut(self, segment: BrokerSegment, position: int, next_offset: int, reason: str) -> None:
        """Cuts the .log at a position, and notes what goes."""
        loss, length = lost_behind(self.workspace.path(segment.log), position), segment.size - position
        self.cuts.append(Cut(segment.log, position, length, next_offset, loss=loss))
        removed = Removed(position, length, reason, *_offsets(loss), loss.records)
        self.workspace.truncate(segment.log, position, reason, [removed])

    def _empty(self, segment: BrokerSegment) -> None:
        """truncateTo(base): what a broker does where the index refuses an offset."""
        reason = "an offset that does not rise: a broker empties the segment"
        self._cut(segment, 0, segment.base_offset, reason)
        for suffix in SUFFIXES[1:]:
            if segment.stem + suffix in self.workspace:
                self.workspace.write(segment.stem + suffix, [b""], reason)

    def _recover_log(self) -> int:
        """The log end."""
        start = self.start
        if not start.was_clean:
            self._recover_unflushed()
        end: int | None = None
        if self.segments:
            end = self._last.read_next_offset()
            if end < start.log_start_offset:
                for base in list(self.segments):
                    self._drop(base, "the log ends below its start offset")
                self.epochs.clear()
                self.producers.start_at(start.log_start_offset)
                end = None
        self._ensure_segment(start.log_start_offset)
        return self._last.read_next_offset() if end is None else end

    def _ensure_segment(self, base: int) -> None:
        if self.segments:
            return
        stem = f"{base:020d}"
        for suffix in (LOG, INDEX, TIME_INDEX) if self.start.era.has_time_index else (LOG, INDEX):
            self.workspace.write(stem + suffix, [b""], "a log has at least one segment")
        self.segments[base] = BrokerSegment(self.workspace, stem, base)

    @property
    def _last(self) -> BrokerSegment:
        return self.segments[max(self.segments)]

    def _recover_unflushed(self) -> None:
        bases = sorted(self.segments)
        floor = max((base for base in bases if base <= self.start.recovery_point), default=None)
        for base in bases:
            if floor is not None and base < floor:
                continue
            if self._recover(self.segments[base]) > 0:
                later = [other for other in bases if other > base]
                for other in later:
                    self.cuts[-1].dropped.append(self.segments[other].log)
                    self._drop(other, "lies behind the cut")
                return

    def _drop(self, base: int, reason: str) -> None:
        segment = self.segments.pop(base)
        loss = lost_behind(self.workspace.path(segment.log), 0)
        if self.cuts:
            self.cuts[-1].loss.add(loss)
        for suffix in SUFFIXES:
            removed = [Removed(0, segment.size, reason, *_offsets(loss), loss.records)] if suffix == LOG else []
            self.workspace.delete(segment.stem + suffix, reason, removed)
        self.producers.forget_snapshot(base, reason)

    # Step 4

    def _rebuild_producers(self, manager: ProducerStateManager, log_start: int, end: int, from_clean: bool) -> None:
        """UnifiedLog.rebuildProducerState: the state at ``end``, from the newest snapshot and the batches behind it."""
        bases = sorted(self.segments)
        marks = [*bases[-2:], end]
        if not manager.offsets and from_clean:
            for offset in marks:
                manager.end_offset = offset
                manager.take_snapshot()
            return
        was_empty = not len(manager.state) and manager.end_offset >= end
        manager.truncate_and_reload(log_start, end)
        if end > manager.end_offset and not was_empty:
            floor = max((base for base in bases if base <= manager.end_offset), default=None)
            for base in bases:
                if (floor is not None and base < floor) or base >= end:
                    continue
                self._replay(manager, self.segments[base], log_start, end, base in marks)
        manager.end_offset = end
        manager.take_snapshot()

    def _replay(
        self, manager: ProducerStateManager, segment: BrokerSegment, log_start: int, end: int, is_mark: bool
    ) -> None:
        begin = max(segment.base_offset, manager.end_offset, log_start)
        manager.end_offset = begin
        if is_mark:
            manager.take_snapshot()
        for headers in segment.headers(segment.lookup(begin)):
            first, rows = 0, headers.rows
            while first < headers.count and rows[first * BATCH_WIDTH + BATCH_LAST_OFFSET] < begin:
                first += 1
            if first < headers.count and self._take_up(manager, rows, headers.count, first, end) is None:
                return

    def _take_up(
        self, manager: ProducerStateManager, rows: memoryview, count: int, first: int = 0, end: int | None = None
    ) -> list[AbortedTxn] | None:
        """Replays rows; the transactions that were aborted, None where a batch reaches ``end``."""
        stopped, events, aborts = manager.state.replay(rows, count, first, end)
        for event in events:
            if event.kind == OUTSIDE:
                at = event.row * BATCH_WIDTH
                raise BrokerRefusesError(
                    f"{self.workspace.directory}: producer {rows[at + BATCH_PRODUCER_ID]} writes outside of its open "
                    f"transaction at offset {rows[at + BATCH_FIRST_OFFSET]}: a broker does not start on it"
                )
        if stopped < count:
            return None
        return [entry for abort in aborts if (entry := abort.entry) is not None]

    def _read_epochs(self) -> LeaderEpochs:
        if EPOCH_FILE not in self.workspace:
            return LeaderEpochs()
        items = list(read_leader_epochs(self.workspace.read(EPOCH_FILE)))
        problems = [problem for problem in problems_of(items) if problem.code != "unsorted"]
        if problems:
            raise BrokerRefusesError(
                f"{self.workspace.directory}/{EPOCH_FILE}: {problems[0].message}: a broker does not start with it; "
                "--rebuild-epochs makes a new one from the batches"
            )
        return LeaderEpochs(entries_of(items))

    def _write_epochs(self) -> None:
        if EPOCH_FILE in self.workspace or self.epochs.entries:
            self.workspace.write(EPOCH_FILE, [build_leader_epochs(self.epochs.entries)], "cut to the log")


class _SwapSegment(BrokerSegment):
    """A segment whose files end in .swap."""

    @property
    def log(self) -> str:
        return f"{self.stem}{LOG}.swap"

    def lookup(self, offset: int) -> int:
        return 0

    def last_indexed(self) -> tuple[int, int]:
        return self.base_offset, 0


def _offsets(loss: Loss) -> tuple[int | None, int | None]:
    return (loss.first_offset, loss.last_offset) if loss.first_offset >= 0 else (None, None)


def _leading_offset(name: str) -> int | None:
    """The number that a name begins with, as the broker's offsetFromFile reads it; None without one."""
    stem = name.partition(".")[0]
    digits = stem.removeprefix("-").removeprefix("+")
    if "." not in name or not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    return int(stem)


def offset_of(name: str) -> int:
    """As `_leading_offset`; a name without a number stops a broker."""
    offset = _leading_offset(name)
    if offset is None:
        raise BrokerRefusesError(f"{name}: its name is no offset: a broker does not start with it; move it away")
    return offset
