"""Builds the producer state at an offset as a broker's load does (UnifiedLog.rebuildProducerState of 4.3.1).

Starts from the newest snapshot and replays the batches after it. Unlike a scan, a replay trusts every byte: it looks up
its start in the offset index and verifies no checksum. So damage below the recovery point can stop a broker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from kseg.formats.suffixes import LOG
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL
from kseg.recovery.broker.producer_state import ProducerStateManager
from kseg.recovery.broker.segments import BadFrameError, BrokerSegment
from kseg.recovery.workspace import BrokerRefusesError, TransactionConflictError, Workspace, offset_of
from kseg.releases.recovery import Era
from kseg.segment.survey import HeaderRows
from kseg.sidefiles.producer_state import ProducerStates

# Effects of reading a whole segment in a broker's replay (UnifiedLog.loadProducersFromRecords).
#
# A broker that replays a segment applies the updates of all its batches together, and ends their transactions
# afterwards. Two transactions that begin at one offset are then one, and cannot both end: the broker dies. A producer
# whose epoch is the same before and after the read keeps its last batch, even if an epoch in between has no batch.


class ReplayedRead:
    """One read, begun with the producers of ``state``. ``lost``: first offsets of open transactions that an earlier
    read ended together with another one; it is updated."""

    def __init__(self, state: ProducerStates, lost: set[int]) -> None:
        self._before = {entry.producer_id: entry for entry in state.entries()}
        self._lost = lost
        self._last = -1
        self.may_share = bool(lost)
        """Whether two transactions may begin at one offset, because offsets of transactional batches do not rise."""

    def add(self, headers: HeaderRows) -> None:
        """Adds batches that were replayed."""
        for _, attributes, first, _ in produced(headers):
            if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
                self.may_share |= first <= self._last
                self._last = first

    def end_transactions(self, read: Iterable[HeaderRows]) -> str:
        """Returns why a broker dies when it ends the transactions of these batches, "" if it does not."""
        opened = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in self._before.values()
            if entry.current_txn_first_offset >= 0
        }
        ongoing, ended = set(opened.values()) - self._lost, list[tuple[int, int]]()
        for headers in read:
            for producer, attributes, first, count in produced(headers):
                if attributes & CONTROL:
                    if count and producer in opened:
                        ended.append((producer, opened.pop(producer)))
                elif attributes & TRANSACTIONAL and producer not in opened:
                    opened[producer] = first
                    ongoing.add(first)
        for producer, first in ended:
            if first not in ongoing:
                return (
                    f"producer {producer} ends a transaction that begins at offset {first}, where another one does "
                    "that has ended"
                )
            ongoing.discard(first)
        self._lost.clear()
        self._lost.update(first for first in opened.values() if first not in ongoing)
        return ""

    def keep_batches(self, state: ProducerStates) -> None:
        """Restores the last batches of producers that the state lost because of an epoch within the read."""
        for index, entry in enumerate(state.entries()):
            before = self._before.get(entry.producer_id)
            if before and before.has_batch and not entry.has_batch and entry.producer_epoch == before.producer_epoch:
                state.restore_batch(index, before)


def produced(headers: HeaderRows) -> Iterator[tuple[int, int, int, int]]:
    """Yields producer id, attributes, first offset and record count of the batches that have a producer."""
    columns = headers.producer_ids, headers.attributes, headers.firsts, headers.records, headers.magics
    for producer_id, attributes, first, count, magic in zip(*columns, strict=True):
        if producer_id >= 0 and magic >= MAGIC_V2:
            yield producer_id, attributes, first, count


_HINT = (
    "a broker rebuilds its producer state there, and does not start; --full scans the log and cuts it, "
    "--mode salvage keeps what is intact"
)


class ProducerReplay:
    """``segments`` by base offset are those loaded so far; the caller changes them. ``segment_of``: returns the segment
    of a stem and base offset, as planned."""

    def __init__(
        self,
        workspace: Workspace,
        segments: Mapping[int, BrokerSegment],
        era: Era,
        segment_of: Callable[[str, int], BrokerSegment],
    ) -> None:
        self._workspace = workspace
        self._segments = segments
        self._era, self._segment_of = era, segment_of
        self._lost: set[int] = set()
        """See `ReplayedRead`."""

    def is_old_format(self) -> bool:
        """Whether the newest batch of the log is of v0 or v1; stands for the topic's message format, which is
        unknown."""
        for name in reversed(self._workspace.names(LOG)):
            magic = -1
            for headers in self._segment_of(name.removesuffix(LOG), offset_of(name)).headers():
                magic = headers[-1].magic
            if magic >= 0:
                return magic < MAGIC_V2
        return False

    def bring_to(self, manager: ProducerStateManager, log_start: int, base: int) -> None:
        """Builds the state at the base of a segment that will be scanned. Raises BrokerRefusesError."""
        era = self._era
        if not era.snapshots_each_replayed_segment:
            self.rebuild(manager, log_start, base, False)
            return
        manager.truncate_and_reload(log_start, base)
        self._replay_between(manager, 0, base, ())
        manager.end_offset = base
        if era.snapshots_before_scan:
            manager.take_snapshot()

    def rebuild(self, manager: ProducerStateManager, log_start: int, end: int, from_clean: bool) -> None:
        """Builds the state at ``end``, and takes the snapshots that a broker takes. Raises BrokerRefusesError."""
        bases, era = sorted(self._segments), self._era
        marks = [*bases[-2:], end]
        is_old = era.has_topic_formats and (era.skips_old_formats or not manager.offsets) and self.is_old_format()
        if is_old or (not manager.offsets and from_clean):
            for offset in marks:
                manager.end_offset = offset
                manager.take_snapshot()
            return
        was_empty = not len(manager.state) and manager.end_offset >= end
        manager.truncate_and_reload(log_start, end)
        if not was_empty:
            self._replay_between(manager, log_start, end, bases if era.snapshots_each_replayed_segment else marks)
        manager.end_offset = end
        manager.take_snapshot()

    def _replay_between(self, manager: ProducerStateManager, log_start: int, end: int, marks: Iterable[int]) -> None:
        """Replays the segments up to ``end``; takes a snapshot at each base offset in ``marks``."""
        if end <= manager.end_offset:
            return
        self._lost.clear()
        bases = sorted(self._segments)
        floor = max((base for base in bases if base <= manager.end_offset), default=None)
        last = max((base for base in bases if base <= end), default=None)
        for base in bases:
            if (floor is None or base >= floor) and base < end:
                manager.end_offset = begin = max(base, manager.end_offset, log_start)
                if base in marks:
                    manager.take_snapshot()
                is_bound = base == last or self._era.bounds_replay_of_each_segment
                self._replay(manager, self._segments[base], begin, end if is_bound else None)

    def _replay(self, manager: ProducerStateManager, segment: BrokerSegment, begin: int, end: int | None) -> None:
        """Replays a segment from offset ``begin`` to the position of ``end``, or to the segment's end if that is
        None."""
        by_first = self._era.searches_by_first_offset
        try:
            stop = segment.position_of(end, by_first) if end is not None else None
            start, stop = segment.position_of(begin, by_first), segment.size if stop is None else stop
            if start is None:
                return
            if stop < start:
                raise self._refusal(segment, f"its index leads to position {stop} for offset {end}, to {start} before")
            read = ReplayedRead(manager.state, self._lost)
            for headers in segment.claimed(start, stop):
                replayed = manager.replay(headers, segment.read)
                if replayed.refusal:
                    raise replayed.error(segment.path, _HINT)
                read.add(headers)
            if read.may_share and (why := read.end_transactions(segment.claimed(start, stop))):
                raise TransactionConflictError(f"{segment.path}: {why}: {_HINT}")
            read.keep_batches(manager.state)
        except BadFrameError as error:
            raise self._refusal(segment, str(error)) from error

    def check_first_unstable(self, manager: ProducerStateManager, log_start: int, end: int) -> None:
        """Looks up the start of the oldest transaction that is not known to be replicated, as a broker does to find its
        position (UnifiedLog.maybeIncrementFirstUnstableOffset). Raises BrokerRefusesError if a broker would fail."""
        first = manager.state.first_unstable_offset
        if first is None or max(first, log_start) >= end:
            return
        offset, by_first = max(first, log_start), self._era.searches_by_first_offset
        floor = max((base for base in self._segments if base <= offset), default=None)
        if floor is None:
            return
        for base in sorted(base for base in self._segments if base >= floor):
            segment = self._segments[base]
            try:
                if segment.position_of(offset, by_first) is not None:
                    return
            except BadFrameError as error:
                raise self._refusal(segment, f"a transaction is open since offset {first}, and {error}") from error

    def _refusal(self, segment: BrokerSegment, reason: str) -> BrokerRefusesError:
        return BrokerRefusesError(f"{segment.path}: {reason}: {_HINT}")
