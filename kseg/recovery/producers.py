"""Producer state and its snapshots as Kafka's ProducerStateManager keeps them while a log is loaded.

Snapshots are files of the workspace. One that is loaded loses the producers that have expired by ``now_ms``.
"""

from collections.abc import Iterator

from kseg.errors import UnsupportedError
from kseg.recovery.eras import JAVA, SCALA_2_12, Era
from kseg.recovery.names import leading_offset
from kseg.recovery.workspace import Workspace
from kseg.sidefiles.hash_order import hash_map_order
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_snapshot import (
    ENTRY,
    HEADER_BYTES,
    ProducerStateEntry,
    build_producer_snapshot,
    read_producer_snapshot,
)
from kseg.sidefiles.producer_state import MAX_PRODUCERS, Abort, Event, ProducerStates
from kseg.sidefiles.scala_order import scala_2_12_order, scala_2_13_order
from kseg.sidefiles.transaction_index import VERSION, AbortedTxn

SUFFIX = ".snapshot"
SNAPSHOT_REASON = "producer state at this offset"
_LARGEST_BYTES = HEADER_BYTES + MAX_PRODUCERS * ENTRY.size


class ProducerStateManager:
    """``end_offset`` is how far the state has come (lastMapOffset), ``snapshot_offset`` that of the newest snapshot.

    Managers of one workspace may share ``offsets``, the names of snapshots by their offset.
    """

    def __init__(
        self, workspace: Workspace, now_ms: int, era: Era | None = None, offsets: dict[int, str] | None = None
    ) -> None:
        self._workspace = workspace
        self._now_ms = now_ms
        self._era = era or Era()
        self.state = ProducerStates()
        self.end_offset = 0
        self.snapshot_offset = 0
        self.offsets: dict[int, str] = {} if offsets is None else offsets
        if offsets is None:
            self.load_names()

    def load_names(self) -> None:
        """Snapshot files by offset."""
        self.offsets = {}
        for name in self._workspace.names(SUFFIX):
            offset = leading_offset(name)
            if offset is not None and name.count(".") == 1:
                self.offsets[offset] = name

    def take_snapshot(self) -> None:
        """Writes the state at the end offset, unless a snapshot is that far."""
        if self.end_offset <= self.snapshot_offset:
            return
        name = f"{self.end_offset:020d}{SUFFIX}"
        entries = {entry.producer_id: entry for entry in self.state.entries(self._era.snapshot_form)}
        order = self._era.snapshot_order
        ordered = hash_map_order if order == JAVA else scala_2_12_order if order == SCALA_2_12 else scala_2_13_order
        content = build_producer_snapshot(entries[producer_id] for producer_id in ordered(entries))
        self._workspace.write(name, [content], SNAPSHOT_REASON)
        self.offsets[self.end_offset] = name
        self.snapshot_offset = self.end_offset

    def fingerprint(self) -> int:
        """The same, in this run of the program, for the same state."""
        return hash((len(self.state), build_producer_snapshot(self.state.entries())))

    def forget_snapshot(self, offset: int, reason: str) -> None:
        name = self.offsets.pop(offset, None)
        if name is not None:
            self._workspace.delete(name, reason)

    def truncate_and_reload(self, log_start: int, end: int) -> None:
        """Drops snapshots outside (log_start, end] and loads the newest left, unless the state is that of ``end``."""
        for offset in sorted(self.offsets):
            if offset > end or offset <= log_start:
                self.forget_snapshot(offset, "lies outside the log")
        if end != self.end_offset:
            self._load(log_start)
            return
        if not self._era.keeps_snapshot_of_each:
            self.forget_before(log_start)
        self.end_offset = max(self.end_offset, log_start)
        self.snapshot_offset = max(self.offsets, default=log_start)

    def replay(
        self, rows: memoryview, count: int, start: int = 0, until: int | None = None
    ) -> tuple[int, list[Event], list[AbortedTxn]]:
        """As `ProducerStates.replay`, with the entries that go into the transaction index."""
        stopped, events, aborts = self.state.replay(rows, count, start, until)
        if self.state.is_full:
            raise UnsupportedError(f"{self._workspace.directory}: has more than {MAX_PRODUCERS} producers")
        return stopped, events, list(self._indexed(aborts))

    def _indexed(self, aborts: list[Abort]) -> Iterator[AbortedTxn]:
        for abort in aborts:
            if abort.entry is not None:
                yield abort.entry
            elif self._era.indexes_empty_aborts:
                at = abort.last_offset
                yield AbortedTxn(VERSION, abort.producer_id, at, at, abort.last_stable_offset)

    def forget_before(self, offset: int) -> None:
        """Drops the snapshots below an offset."""
        for taken in sorted(self.offsets):
            if taken < offset:
                self.forget_snapshot(taken, "is older than a broker keeps them")

    def load_at(self, offset: int) -> None:
        """Takes the state from the snapshot at an offset, if it can be read; none of its producers has expired."""
        entries = self._read(self.offsets[offset])
        if entries is not None:
            self.state = ProducerStates(entries)

    def _load(self, log_start: int) -> None:
        while self.offsets:
            offset = max(self.offsets)
            entries = self._read(self.offsets[offset])
            if entries is None:
                self.forget_snapshot(offset, "cannot be read")
                continue
            least = log_start if self._era.forgets_below_start else -1
            kept = (entry for entry in entries if not self._has_expired(entry) and entry.last_offset >= least)
            self.state = ProducerStates(kept)
            self.snapshot_offset = self.end_offset = offset
            return
        self.state = ProducerStates()
        self.snapshot_offset = self.end_offset = log_start

    def _has_expired(self, entry: ProducerStateEntry) -> bool:
        return entry.current_txn_first_offset < 0 and self._now_ms - entry.timestamp >= self._era.expiration_ms

    def _read(self, name: str) -> list[ProducerStateEntry] | None:
        if self._workspace.size(name) > _LARGEST_BYTES:
            raise UnsupportedError(f"{self._workspace.directory}/{name}: has more than {MAX_PRODUCERS} producers")
        items = list(read_producer_snapshot(self._workspace.read(name)))
        return None if problems_of(items) else entries_of(items)

    def remove_stray_snapshots(self, base_offsets: set[int]) -> None:
        """Keeps those at the base of a segment, and the largest other one if it lies above the last base."""
        self.load_names()
        largest_stray = None
        for offset in sorted(self.offsets):
            if offset in base_offsets:
                continue
            if largest_stray is not None:
                self.forget_snapshot(largest_stray, "belongs to no segment")
            largest_stray = offset
        if largest_stray is not None and base_offsets and largest_stray < max(base_offsets):
            self.forget_snapshot(largest_stray, "belongs to no segment")

    def start_at(self, offset: int) -> None:
        """Forgets everything (truncateFullyAndStartAt)."""
        self.state = ProducerStates()
        for taken in sorted(self.offsets):
            self.forget_snapshot(taken, "lies outside the log")
        self.snapshot_offset, self.end_offset = 0, offset
