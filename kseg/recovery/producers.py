"""Producer state and its snapshots as Kafka's ProducerStateManager keeps them while a log is loaded.

Snapshots are files of the workspace. One that is loaded loses the producers that have expired by ``now_ms``.
"""

from kseg.recovery.workspace import Workspace
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_snapshot import (
    ProducerStateEntry,
    build_producer_snapshot,
    order_as_broker,
    read_producer_snapshot,
)
from kseg.sidefiles.producer_state import ProducerStates

EXPIRATION_MS = 86_400_000
"""Default of producer.id.expiration.ms."""

SUFFIX = ".snapshot"


class ProducerStateManager:
    """``end_offset`` is how far the state has come (lastMapOffset), ``snapshot_offset`` that of the newest snapshot."""

    def __init__(self, workspace: Workspace, now_ms: int) -> None:
        self._workspace = workspace
        self._now_ms = now_ms
        self.state = ProducerStates()
        self.end_offset = 0
        self.snapshot_offset = 0
        self.offsets: dict[int, str] = {}
        self.load_names()

    def load_names(self) -> None:
        """Snapshot files by offset."""
        self.offsets = {}
        for name in self._workspace.names(SUFFIX):
            stem = name.removesuffix(SUFFIX)
            if stem.isascii() and stem.isdigit():
                self.offsets[int(stem)] = name

    def take_snapshot(self) -> None:
        """Writes the state at the end offset, unless a snapshot is that far."""
        if self.end_offset <= self.snapshot_offset:
            return
        name = f"{self.end_offset:020d}{SUFFIX}"
        content = build_producer_snapshot(order_as_broker(self.state.entries()))
        self._workspace.write(name, [content], "producer state at this offset")
        self.offsets[self.end_offset] = name
        self.snapshot_offset = self.end_offset

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
            self.state = ProducerStates()
            self._load(log_start)
            return
        self.end_offset = max(self.end_offset, log_start)
        self.snapshot_offset = max(self.offsets, default=log_start)

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
            self.state = ProducerStates(entry for entry in entries if not self._has_expired(entry))
            self.snapshot_offset = self.end_offset = offset
            return
        self.snapshot_offset = self.end_offset = log_start

    def _has_expired(self, entry: ProducerStateEntry) -> bool:
        return entry.current_txn_first_offset < 0 and self._now_ms - entry.timestamp >= EXPIRATION_MS

    def _read(self, name: str) -> list[ProducerStateEntry] | None:
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
