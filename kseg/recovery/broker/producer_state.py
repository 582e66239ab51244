"""The producer state and its snapshots during a load, with the rules of Kafka's ProducerStateManager, and its replay.

Snapshots are files of the workspace. When one is loaded, producers that have expired by ``now_ms`` are left out.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy

from kseg.changes.plan import Piece
from kseg.errors import UnsupportedError
from kseg.formats.compression import DecompressionError
from kseg.formats.control import parse_control
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import LOG, SNAPSHOT
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.state.producers import PLAIN_MARKER_BYTES, SHARED
from kseg.limits import MAX_BATCH_BYTES
from kseg.recovery.broker.segments import BadFrameError, BrokerSegment, ReplayResult, SegmentOf
from kseg.recovery.workspace import TransactionConflictError, Workspace, leading_offset
from kseg.releases.release import JAVA_ORDER, SCALA_2_12_ORDER, SCALA_2_13_ORDER, Era
from kseg.segment.files import segment_stem
from kseg.segment.items import TIMESTAMP_TYPES, RecordBatch, records_of
from kseg.segment.survey import HeaderRows
from kseg.sidefiles import producer_state as snapshots
from kseg.sidefiles.hash_order import hash_map_order, scala_2_12_order, scala_2_13_order
from kseg.sidefiles.indexes import TRANSACTION_VERSION, AbortedTxn
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import MAX_PRODUCERS, Abort, ProducerStateEntry, ProducerStates

_CREATE_TIME = TIMESTAMP_TYPES.index("CreateTime")


class BadMarkerError(Exception):
    """The first record of a control batch is no transaction marker.

    ``is_invalid_record``: its bytes are no record (InvalidRecordException). Then a scan truncates the log after the
    batch, and a replay stops the broker. For any other reason both stop the broker.
    """

    def __init__(self, reason: str, is_invalid_record: bool) -> None:
        super().__init__(reason)
        self.is_invalid_record = is_invalid_record


def read_marker(data: bytes, scratch: Scratch) -> tuple[int, int, int]:
    """Returns the type (ABORT or COMMIT), coordinator epoch and timestamp in ms of the marker in a control batch, whose
    record count is at least one, as a broker's producer replay does. Raises BadMarkerError.

    Sources: ProducerAppendInfo.append, EndTransactionMarker, DefaultRecordBatch.iterator of Kafka 4.3.1.
    """
    batch = RecordBatch(data, 0, len(data), MAGIC_V2, True, scratch)
    count, is_compressed = batch.header.record_count, batch.header.codec != 0
    if count < 0:
        raise BadMarkerError(f"it counts {count} records", True)
    first = None
    try:
        for rows in batch.rows():
            if first is None:
                first = next(records_of(rows, _CREATE_TIME))
            if count > 1 and not is_compressed:
                break  # a broker reads only the first record
    except UndecodableError as error:
        raise BadMarkerError(str(error), not isinstance(error, DecompressionError)) from error
    if first is None:
        raise BadMarkerError("it has no record", True)
    control, value = parse_control(first.key, first.value), first.value
    if control.type_id is None:
        raise BadMarkerError(control.error or "", first.key is not None)
    if control.type_id not in (ABORT, COMMIT):
        raise BadMarkerError(f"its type is {control.type_id}, which is neither ABORT nor COMMIT", False)
    if control.error is not None:
        raise BadMarkerError(control.error, value is not None and len(value) >= 2 and value[0] >= 128)
    return control.type_id, control.fields["coordinatorEpoch"], first.timestamp or 0


def end_together(opened: dict[int, int], read: Iterable[HeaderRows], lost: set[int]) -> str:
    """Returns why a broker dies when it ends the transactions of these batches, "" if it does not.

    A broker that replays a segment applies the updates of all its batches together, and ends their transactions
    afterwards (UnifiedLog.loadProducersFromRecords). Two transactions that begin at one offset are then one, and cannot
    both end.

    ``opened``: first offsets of the transactions that were open before, by producer; ``lost``: those of open
    transactions that an earlier read ended together with another one. Both are updated.
    """
    ongoing, ended = set(opened.values()) - lost, list[tuple[int, int]]()
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
                f"producer {producer} ends a transaction that begins at offset {first}, where another one does that "
                "has ended"
            )
        ongoing.discard(first)
    lost.clear()
    lost.update(first for first in opened.values() if first not in ongoing)
    return ""


def produced(headers: HeaderRows) -> Iterator[tuple[int, int, int, int]]:
    """Yields producer id, attributes, first offset and record count of the batches that have a producer."""
    columns = headers.producer_ids, headers.attributes, headers.firsts, headers.records, headers.magics
    for producer_id, attributes, first, count, magic in zip(*columns, strict=True):
        if producer_id >= 0 and magic >= MAGIC_V2:
            yield producer_id, attributes, first, count


_LARGEST_BYTES = snapshots.HEADER_BYTES + MAX_PRODUCERS * snapshots.ENTRY.size

_HINT = (
    "a broker rebuilds its producer state there, and does not start; --full scans the log and cuts it, "
    "--mode salvage keeps what is intact"
)

_ORDERS = {JAVA_ORDER: hash_map_order, SCALA_2_12_ORDER: scala_2_12_order, SCALA_2_13_ORDER: scala_2_13_order}


class ProducerStateManager:
    """``end_offset``: the end of the replayed batches (lastMapOffset); ``snapshot_offset``: that of the newest
    snapshot.

    ``segments`` by base offset are those loaded so far; the caller changes them. ``segment_of``: returns any segment as
    planned. ``offsets``: the names of snapshots by offset.
    """

    def __init__(
        self, workspace: Workspace, now_ms: int, era: Era, segments: Mapping[int, BrokerSegment], segment_of: SegmentOf
    ) -> None:
        self._workspace, self._segments, self._segment_of = workspace, segments, segment_of
        self._now_ms, self._era = now_ms, era
        self.state = ProducerStates(as_broker=True)
        self.end_offset = 0
        self.snapshot_offset = 0
        self.offsets: dict[int, str] = {}
        self.load_names()

    def without_producers(self) -> "ProducerStateManager":
        """Returns a manager of the same snapshots and segments that has loaded none."""
        other = copy(self)
        other.state, other.end_offset, other.snapshot_offset = ProducerStates(as_broker=True), 0, 0
        return other

    def load_names(self) -> None:
        """Finds the snapshot files in the workspace."""
        found = {leading_offset(name): name for name in self._workspace.names(SNAPSHOT)}
        self.offsets = {offset: name for offset, name in found.items() if offset is not None}

    def take_snapshot(self) -> None:
        """Writes a snapshot at the end offset, unless there is one at this offset or a higher one."""
        if self.end_offset <= self.snapshot_offset:
            return
        entries = self.state.entries(self._era.marker_effect)
        content = snapshots.build_producer_snapshot(entries, _ORDERS[self._era.snapshot_order])
        self.write_snapshot(self.end_offset, [content])
        self.snapshot_offset = self.end_offset

    def write_snapshot(self, offset: int, pieces: Iterable[Piece]) -> None:
        """Writes the snapshot at an offset."""
        name = self.offsets[offset] = segment_stem(offset) + SNAPSHOT
        self._workspace.write(name, pieces, "producer state at this offset")

    def fingerprint(self) -> int:
        """Returns a number that is equal for equal states in this run of the program."""
        return hash((len(self.state), snapshots.build_producer_snapshot(self.state.entries())))

    def delete_snapshot(self, offset: int, reason: str) -> None:
        """Deletes the snapshot at an offset, if there is one."""
        name = self.offsets.pop(offset, None)
        if name is not None:
            self._workspace.delete(name, reason)

    def truncate_and_reload(self, log_start: int, end: int) -> None:
        """Removes snapshots outside (log_start, end] and loads the newest one left, unless the state is at ``end``."""
        for offset in sorted(self.offsets):
            if offset <= log_start:
                self.delete_snapshot(offset, f"is not above offset {log_start}, where the log starts")
            elif offset > end:
                self.delete_snapshot(offset, f"is above offset {end}: the producer state is rebuilt from there on")
        if end != self.end_offset:
            self._load(log_start)
            return
        self.end_offset = max(self.end_offset, log_start)
        self.snapshot_offset = max(self.offsets, default=log_start)

    def replay(self, headers: HeaderRows, read: Callable[[int, int], bytes]) -> ReplayResult:
        """Replays batches, whatever their checksums and offsets are; accepts all in an era without producers.

        ``read`` returns bytes of the .log by position and length. Raises UnsupportedError for too many producers.
        """
        rows, count, start = headers.rows, headers.count, 0
        aborted: list[AbortedTxn] = []
        if not self._era.has_producers:
            return ReplayResult(count, aborted)
        while True:
            start, events, aborts = self.state.replay(rows, count, start)
            if self.state.is_full:
                raise UnsupportedError(f"{self._workspace.directory}: has more than {MAX_PRODUCERS} producers")
            aborted += self._indexed(aborts)
            if events:
                row, first = headers[events[0].row], events[0].a
                text = f"producer {row.producer_id} writes outside of its open transaction at offset {row.first_offset}"
                if events[0].kind == SHARED:
                    text = (
                        f"the transaction of producer {row.producer_id} that ends at offset {row.first_offset} begins "
                        f"at offset {first}, where another one does that is open"
                    )
                return ReplayResult(events[0].row, aborted, refusal=text, error=TransactionConflictError)
            if start == count:
                return ReplayResult(count, aborted)
            row = headers[start]
            try:
                if row.size > MAX_BATCH_BYTES:
                    raise BadMarkerError(f"it has {row.size} bytes", False)
                kind, coordinator_epoch, timestamp = read_marker(read(row.position, row.size), self._workspace.scratch)
            except BadMarkerError as error:
                text = f"the control batch at offset {row.first_offset} ends no transaction: {error}"
                return ReplayResult(start + error.is_invalid_record, aborted, error.is_invalid_record, text)
            # The row of an intact, uncompressed batch, with the fields of its first record.
            plain = row._replace(
                state=CRC_RIGHT, size=PLAIN_MARKER_BYTES, records=1, marker=kind, coordinator_epoch=coordinator_epoch,
                base_timestamp=timestamp, max_timestamp=timestamp,
            )  # fmt: skip
            aborted += self._indexed(self.state.replay(HeaderRows.of([plain]).rows, 1)[2])
            start += 1

    def _indexed(self, aborts: list[Abort]) -> Iterator[AbortedTxn]:
        for abort in aborts:
            if abort.entry is not None:
                yield abort.entry
            elif self._era.indexes_empty_aborts:
                at = abort.last_offset
                yield AbortedTxn(TRANSACTION_VERSION, abort.producer_id, at, at, abort.last_stable_offset)

    def delete_snapshots_below(self, offset: int) -> None:
        """Removes the snapshots below an offset."""
        for taken in sorted(self.offsets):
            if taken < offset:
                self.delete_snapshot(taken, "is older than a broker keeps them")

    def load_at(self, offset: int) -> None:
        """Loads the snapshot at an offset, if it can be read; its producers do not expire."""
        entries = self._read(self.offsets[offset])
        if entries is not None:
            self.state = ProducerStates(entries, as_broker=True)

    def _load(self, log_start: int) -> None:
        while self.offsets:
            offset = max(self.offsets)
            entries = self._read(self.offsets[offset])
            if entries is None:
                self.delete_snapshot(offset, "cannot be read")
                continue
            least = log_start if self._era.drops_producers_below_start else -1
            oldest_ms = self._now_ms - self._era.expiration_ms
            living = (entry for entry in entries if entry.current_txn_first_offset >= 0 or entry.timestamp > oldest_ms)
            self.state = ProducerStates((entry for entry in living if entry.last_offset >= least), as_broker=True)
            self.snapshot_offset = self.end_offset = offset
            return
        self.state = ProducerStates(as_broker=True)
        self.snapshot_offset = self.end_offset = log_start

    def _read(self, name: str) -> list[ProducerStateEntry] | None:
        if self._workspace.size(name) > _LARGEST_BYTES:
            raise UnsupportedError(f"{self._workspace.directory}/{name}: has more than {MAX_PRODUCERS} producers")
        items = list(snapshots.read_producer_snapshot(self._workspace.read(name)))
        return None if problems_of(items) else entries_of(items)

    def remove_stray_snapshots(self, base_offsets: set[int]) -> None:
        """Removes all snapshots but those at segment bases, and the largest other one if it is above the last base."""
        self.load_names()
        strays = sorted(self.offsets.keys() - base_offsets)
        if strays and strays[-1] > max(base_offsets):
            strays.pop()
        for offset in strays:
            self.delete_snapshot(offset, "belongs to no segment")

    def start_at(self, offset: int) -> None:
        """Clears the state and removes all snapshots (truncateFullyAndStartAt)."""
        self.state = ProducerStates(as_broker=True)
        for taken in sorted(self.offsets):
            self.delete_snapshot(taken, f"belongs to the old log: the new one starts at offset {offset}")
        self.snapshot_offset, self.end_offset = 0, offset

    # Builds the producer state at an offset as a broker's load does (UnifiedLog.rebuildProducerState of 4.3.1).
    #
    # Starts from the newest snapshot and replays the batches after it. Unlike a scan, a replay trusts every byte: it
    # looks up its start in the offset index and verifies no checksum. So damage below the recovery point can stop a
    # broker.

    def is_old_format(self) -> bool:
        """Whether the newest batch of the log is of v0 or v1; stands for the unknown message format of the topic."""
        for name in reversed(self._workspace.names(LOG)):
            magic = -1
            for headers in self._segment_of(name.removesuffix(LOG), self._workspace.offset_of(name)).headers():
                magic = headers[-1].magic
            if magic >= 0:
                return magic < MAGIC_V2
        return False

    def bring_to(self, log_start: int, base: int) -> None:
        """Builds the state at the base of a segment that will be scanned. Raises BrokerRefusesError."""
        era = self._era
        if not era.snapshots_each_replayed_segment:
            self.rebuild(log_start, base, False)
            return
        self.truncate_and_reload(log_start, base)
        self._replay_between(0, base, ())
        self.end_offset = base
        if era.snapshots_before_scan:
            self.take_snapshot()

    def rebuild(self, log_start: int, end: int, from_clean: bool) -> None:
        """Builds the state at ``end``, and takes the snapshots that a broker takes. Raises BrokerRefusesError."""
        bases, era = sorted(self._segments), self._era
        marks = [*bases[-2:], end]
        is_old = era.has_topic_formats and (era.skips_old_formats or not self.offsets) and self.is_old_format()
        if is_old or (not self.offsets and from_clean):
            for offset in marks:
                self.end_offset = offset
                self.take_snapshot()
            return
        was_empty = not len(self.state) and self.end_offset >= end
        self.truncate_and_reload(log_start, end)
        if not was_empty:
            self._replay_between(log_start, end, bases if era.snapshots_each_replayed_segment else marks)
        self.end_offset = end
        self.take_snapshot()

    def _replay_between(self, log_start: int, end: int, marks: Iterable[int]) -> None:
        """Replays the segments up to ``end``; takes a snapshot at each base offset in ``marks``."""
        if end <= self.end_offset:
            return
        lost, bases = set[int](), sorted(self._segments)
        floor = max((base for base in bases if base <= self.end_offset), default=None)
        last = max((base for base in bases if base <= end), default=None)
        for base in bases:
            if (floor is None or base >= floor) and base < end:
                self.end_offset = begin = max(base, self.end_offset, log_start)
                if base in marks:
                    self.take_snapshot()
                is_bound = base == last or self._era.bounds_replay_of_each_segment
                self._replay_segment(self._segments[base], begin, end if is_bound else None, lost)

    def _replay_segment(self, segment: BrokerSegment, begin: int, end: int | None, lost: set[int]) -> None:
        """Replays a segment from offset ``begin`` to the position of ``end``, or to the segment's end if that is
        None. ``lost``: see `end_together`."""
        by_first = self._era.searches_by_first_offset
        try:
            stop = segment.position_of(end, by_first) if end is not None else None
            start, stop = segment.position_of(begin, by_first), segment.size if stop is None else stop
            if start is None:
                return
            if stop < start:
                raise segment.refusal(f"its index leads to position {stop} for offset {end}, to {start} before", _HINT)
            before = {entry.producer_id: entry for entry in self.state.entries()}
            # Two transactions may begin at one offset if the offsets of transactional batches do not rise.
            may_share, largest = bool(lost), -1
            for headers in segment.claimed(start, stop):
                replayed = self.replay(headers, segment.read)
                if replayed.refusal:
                    raise replayed.error(f"{segment.path}: {replayed.refusal}: {_HINT}")
                for _, attributes, first, _ in produced(headers):
                    if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
                        may_share, largest = may_share or first <= largest, first
            firsts = {number: entry.current_txn_first_offset for number, entry in before.items()}
            opened = {number: first for number, first in firsts.items() if first >= 0}
            if may_share and (why := end_together(opened, segment.claimed(start, stop), lost)):
                raise TransactionConflictError(f"{segment.path}: {why}: {_HINT}")
            for index, entry in enumerate(self.state.entries()):
                # A producer whose epoch is the same before and after the read keeps its last batch, even if an epoch
                # in between has no batch.
                old = before.get(entry.producer_id)
                if old and old.has_batch and not entry.has_batch and entry.producer_epoch == old.producer_epoch:
                    self.state.restore_batch(index, old)
        except BadFrameError as error:
            raise segment.refusal(str(error), _HINT) from error

    def check_first_unstable(self, log_start: int, end: int) -> None:
        """Looks up the start of the oldest transaction that is not known to be replicated, as a broker does to find its
        position (UnifiedLog.maybeIncrementFirstUnstableOffset). Raises BrokerRefusesError if a broker would fail."""
        first = self.state.first_unstable_offset
        if first is None or max(first, log_start) >= end:
            return
        offset, by_first = max(first, log_start), self._era.searches_by_first_offset
        bases = sorted(self._segments)
        begin = bisect_right(bases, offset) - 1
        for base in bases[begin:] if begin >= 0 else ():
            segment = self._segments[base]
            try:
                if segment.position_of(offset, by_first) is not None:
                    return
            except BadFrameError as error:
                raise segment.refusal(f"a transaction is open since offset {first}, and {error}", _HINT) from error
