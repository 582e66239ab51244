"""The producer state and its snapshots during a load, with the rules of Kafka's ProducerStateManager.

Snapshots are files of the workspace. When one is loaded, producers that have expired by ``now_ms`` are left out.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from kseg.errors import UnsupportedError
from kseg.formats.control import parse_control
from kseg.formats.decompressed import DecompressionError
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import SNAPSHOT
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.state.producers import PLAIN_MARKER_BYTES, SHARED
from kseg.limits import MAX_BATCH_BYTES
from kseg.recovery.workspace import BrokerRefusesError, TransactionConflictError, Workspace, leading_offset
from kseg.releases.recovery import JAVA_ORDER, SCALA_2_12_ORDER, SCALA_2_13_ORDER, Era
from kseg.segment.batches import RecordBatch
from kseg.segment.files import segment_stem
from kseg.segment.items import TIMESTAMP_TYPES, records_of
from kseg.segment.survey import BatchRow, HeaderRows
from kseg.sidefiles.hash_order import hash_map_order, scala_2_12_order, scala_2_13_order
from kseg.sidefiles.indexes import TRANSACTION_VERSION, AbortedTxn
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import (
    ENTRY,
    HEADER_BYTES,
    MAX_PRODUCERS,
    Abort,
    Event,
    ProducerStateEntry,
    ProducerStates,
    build_producer_snapshot,
    read_producer_snapshot,
)

# Reads transaction markers as a broker's producer replay does, including malformed ones with a right checksum.
#
# Sources: ProducerAppendInfo.append, EndTransactionMarker, DefaultRecordBatch.iterator of Kafka 4.3.1.

_CREATE_TIME = TIMESTAMP_TYPES.index("CreateTime")


class Marker(NamedTuple):
    """``type`` is ABORT or COMMIT; ``timestamp`` in ms."""

    type: int
    coordinator_epoch: int
    timestamp: int


class BadMarkerError(Exception):
    """The first record of a control batch is no transaction marker.

    ``is_invalid_record``: its bytes are no record (InvalidRecordException). Then a scan truncates the log after the
    batch, and a replay stops the broker. For any other reason both stop the broker.
    """

    def __init__(self, reason: str, is_invalid_record: bool) -> None:
        super().__init__(reason)
        self.is_invalid_record = is_invalid_record


def read_marker(data: bytes, scratch: Scratch) -> Marker:
    """Returns the marker of a control batch, whose record count is at least one. Raises BadMarkerError."""
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
    return Marker(control.type_id, control.fields["coordinatorEpoch"], first.timestamp or 0)


SNAPSHOT_REASON = "producer state at this offset"
_LARGEST_BYTES = HEADER_BYTES + MAX_PRODUCERS * ENTRY.size

_ORDERS = {JAVA_ORDER: hash_map_order, SCALA_2_12_ORDER: scala_2_12_order, SCALA_2_13_ORDER: scala_2_13_order}


class ReplayResult(NamedTuple):
    """The result of replaying ``batches``, and the aborted transactions that end in them.

    ``refusal``: why a broker stops at the next batch, "" if it does not. ``is_cut``: the last batch stops a
    replay, but a scan of its segment only truncates the log after it. ``is_conflict``: the next batch contradicts
    another one.
    """

    batches: int
    aborted: list[AbortedTxn]
    is_cut: bool = False
    refusal: str = ""
    is_conflict: bool = False

    def error(self, path: str, hint: str) -> BrokerRefusesError:
        """Returns the refusal as an error. ``path`` is the path of the .log, ``hint`` the consequence and the
        remedy."""
        kind = TransactionConflictError if self.is_conflict else BrokerRefusesError
        return kind(f"{path}: {self.refusal}: {hint}")


class ProducerStateManager:
    """``end_offset``: the end of the replayed batches (lastMapOffset); ``snapshot_offset``: that of the newest
    snapshot.

    Managers of one workspace may share ``offsets``, the names of snapshots by offset.
    """

    def __init__(
        self, workspace: Workspace, now_ms: int, era: Era | None = None, offsets: dict[int, str] | None = None
    ) -> None:
        self._workspace = workspace
        self._now_ms = now_ms
        self._era = era or Era()
        self.state = ProducerStates(as_broker=True)
        self.end_offset = 0
        self.snapshot_offset = 0
        self.offsets: dict[int, str] = {} if offsets is None else offsets
        if offsets is None:
            self.load_names()

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()  # a MiB, which only markers need

    def load_names(self) -> None:
        """Finds the snapshot files in the workspace."""
        self.offsets = {}
        for name in self._workspace.names(SNAPSHOT):
            offset = leading_offset(name)
            if offset is not None:
                self.offsets[offset] = name

    def take_snapshot(self) -> None:
        """Writes a snapshot at the end offset, unless there is one at this offset or a higher one."""
        if self.end_offset <= self.snapshot_offset:
            return
        name = segment_stem(self.end_offset) + SNAPSHOT
        entries = {entry.producer_id: entry for entry in self.state.entries(self._era.marker_effect)}
        ordered = _ORDERS[self._era.snapshot_order]
        content = build_producer_snapshot(entries[producer_id] for producer_id in ordered(entries))
        self._workspace.write(name, [content], SNAPSHOT_REASON)
        self.offsets[self.end_offset] = name
        self.snapshot_offset = self.end_offset

    def fingerprint(self) -> int:
        """Returns a number that is equal for equal states in this run of the program."""
        return hash((len(self.state), build_producer_snapshot(self.state.entries())))

    def delete_snapshot(self, offset: int, reason: str) -> None:
        """Deletes the snapshot at an offset, if there is one."""
        name = self.offsets.pop(offset, None)
        if name is not None:
            self._workspace.delete(name, reason)

    def truncate_and_reload(self, log_start: int, end: int) -> None:
        """Removes snapshots outside (log_start, end] and loads the newest one left, unless the state is that at
        ``end``."""
        for offset in sorted(self.offsets):
            if offset <= log_start:
                self.delete_snapshot(offset, f"is not above offset {log_start}, where the log starts")
            elif offset > end:
                self.delete_snapshot(offset, f"is above offset {end}: the producer state is rebuilt from there on")
        if end != self.end_offset:
            self._load(log_start)
            return
        if not self._era.keeps_snapshot_of_each_segment:
            self.delete_snapshots_below(log_start)
        self.end_offset = max(self.end_offset, log_start)
        self.snapshot_offset = max(self.offsets, default=log_start)

    def replay(self, headers: HeaderRows, read: Callable[[int, int], bytes]) -> ReplayResult:
        """Replays batches, whatever their checksums and offsets are.

        ``read`` returns bytes of the .log by position and length. Raises UnsupportedError for too many producers.
        """
        rows, count, start = headers.rows, headers.count, 0
        aborted: list[AbortedTxn] = []
        while True:
            start, events, aborts = self.state.replay(rows, count, start)
            if self.state.is_full:
                raise UnsupportedError(f"{self._workspace.directory}: has more than {MAX_PRODUCERS} producers")
            aborted += self._indexed(aborts)
            if events:
                return ReplayResult(events[0].row, aborted, refusal=_refusal(events[0], headers), is_conflict=True)
            if start == count:
                return ReplayResult(count, aborted)
            try:
                marker = self._marker(headers[start], read)
            except BadMarkerError as error:
                text = f"the control batch at offset {headers[start].first_offset} ends no transaction: {error}"
                if error.is_invalid_record:
                    return ReplayResult(start + 1, aborted, is_cut=True, refusal=text)
                return ReplayResult(start, aborted, refusal=text)
            aborted += self._indexed(self.state.replay(marker.rows, 1)[2])
            start += 1

    def _marker(self, row: BatchRow, read: Callable[[int, int], bytes]) -> HeaderRows:
        """Returns the row of a control batch as that of an intact, uncompressed one, with the fields of its first
        record."""
        if row.size > MAX_BATCH_BYTES:
            raise BadMarkerError(f"it has {row.size} bytes", False)
        marker = read_marker(read(row.position, row.size), self._scratch)
        plain = row._replace(
            state=CRC_RIGHT, size=PLAIN_MARKER_BYTES, records=1, marker=marker.type,
            coordinator_epoch=marker.coordinator_epoch, base_timestamp=marker.timestamp, max_timestamp=marker.timestamp,
        )  # fmt: skip
        return HeaderRows.of([plain])

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
            kept = (entry for entry in entries if not self._has_expired(entry) and entry.last_offset >= least)
            self.state = ProducerStates(kept, as_broker=True)
            self.snapshot_offset = self.end_offset = offset
            return
        self.state = ProducerStates(as_broker=True)
        self.snapshot_offset = self.end_offset = log_start

    def _has_expired(self, entry: ProducerStateEntry) -> bool:
        return entry.current_txn_first_offset < 0 and self._now_ms - entry.timestamp >= self._era.expiration_ms

    def _read(self, name: str) -> list[ProducerStateEntry] | None:
        if self._workspace.size(name) > _LARGEST_BYTES:
            raise UnsupportedError(f"{self._workspace.directory}/{name}: has more than {MAX_PRODUCERS} producers")
        items = list(read_producer_snapshot(self._workspace.read(name)))
        return None if problems_of(items) else entries_of(items)

    def remove_stray_snapshots(self, base_offsets: set[int]) -> None:
        """Removes snapshots, except those at the base of a segment, and the largest other one if it is above the last
        base."""
        self.load_names()
        largest_stray = None
        for offset in sorted(self.offsets):
            if offset in base_offsets:
                continue
            if largest_stray is not None:
                self.delete_snapshot(largest_stray, "belongs to no segment")
            largest_stray = offset
        if largest_stray is not None and base_offsets and largest_stray < max(base_offsets):
            self.delete_snapshot(largest_stray, "belongs to no segment")

    def start_at(self, offset: int) -> None:
        """Clears the state and removes all snapshots (truncateFullyAndStartAt)."""
        self.state = ProducerStates(as_broker=True)
        for taken in sorted(self.offsets):
            self.delete_snapshot(taken, f"belongs to the old log: the new one starts at offset {offset}")
        self.snapshot_offset, self.end_offset = 0, offset


def _refusal(event: Event, headers: HeaderRows) -> str:
    """Returns why a broker rejects a batch."""
    producer, offset = headers[event.row].producer_id, headers[event.row].first_offset
    if event.kind == SHARED:
        return (
            f"the transaction of producer {producer} that ends at offset {offset} begins at offset {event.a}, where "
            "another one does that is open"
        )
    return f"producer {producer} writes outside of its open transaction at offset {offset}"
