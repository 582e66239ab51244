"""Rebuilds a broker's producer state by replaying batch headers in order (ProducerStateManager, LogSegment.recover).

The replay gives the contents of rebuilt .snapshot and .txnindex files, and errors in the order of sequence numbers,
producer epochs and transactions.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kseg.formats.byte_types import Sliceable
from kseg.formats.rows import int64s
from kseg.kernel.scan.events import EVENT_WIDTH
from kseg.kernel.state import producer_table as kernel
from kseg.kernel.state.producers import replay
from kseg.segment.times import DAY_MS
from kseg.sidefiles.producer_snapshot import ProducerSnapshot, ProducerStateEntry
from kseg.sidefiles.transaction_index import VERSION, AbortedTxn

MAX_PRODUCERS = 1 << 20
"""Limit of tracked producers, some 144 bytes each; a broker is limited only by its memory."""

IDLE_MS = DAY_MS
"""Default of producer.id.expiration.ms; older brokers keep producers for 7 days."""

MARKER_SETS_OFFSET, MARKER_IGNORED, MARKER_SETS_TIMESTAMP = 0, 1, 2
"""The effect of a marker on a snapshot entry: it sets the last offset (0.11), nothing (1.0 and 1.1), or the timestamp
(later releases, at the latest 2.8)."""

_FIRST_CAPACITY = 16
_EVENT_LIMIT = 256
_ABORT_LIMIT = 512
_FAR_FUTURE_MS = (1 << 63) - 1


class Event(NamedTuple):
    """An event of `kseg.kernel.state.producer_table`, which defines a, b and c; ``row`` is the batch's row."""

    kind: int
    row: int
    a: int
    b: int
    c: int


class Abort(NamedTuple):
    """An ABORT marker at ``last_offset``, at byte ``position`` of its segment.

    ``first_offset`` is -1 if no transaction was open; ``filled`` is the number of its batches that still hold records.
    ``is_certain`` is false if bytes or offsets are missing between the transaction's first batch and the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    position: int
    filled: int
    is_certain: int

    @property
    def entry(self) -> AbortedTxn | None:
        """The entry of a rebuilt .txnindex; None where 2.8 and later write no entry."""
        if self.first_offset < 0:
            return None
        return AbortedTxn(VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class OngoingTransaction(NamedTuple):
    """An open transaction. Timestamps are in ms, -1 if unknown.

    ``position`` is the position of its first batch in its segment. ``first_marker`` is the timestamp of the first
    marker of any producer after its start. ``is_certain`` is false if its end may be in bytes that were rejected.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    position: int
    timestamp: int
    batches: int
    first_marker: int
    is_certain: bool


class ProducerStates:
    """The producer state before the next batch.

    ``entries`` are those of an earlier snapshot, in its order. Timestamps after ``now_ms`` are ignored when the newest
    timestamp is determined. Per segment (see `begin`) at most ``limit`` events of each kind are listed; all are
    counted. ``columns(name, count)`` returns int64 scratch columns; instances that are never active at the same time
    may share them. ``as_broker``: batches are accepted unchecked, as in a broker's replay
    (`kseg.kernel.state.producers`).
    """

    def __init__(
        self, entries: Iterable[ProducerStateEntry] = (), now_ms: int = _FAR_FUTURE_MS, limit: int = _EVENT_LIMIT,
        columns: Callable[[str, int], memoryview] = lambda _name, count: int64s(count), as_broker: bool = False,
    ) -> None:  # fmt: skip
        self.state = kernel.ProducerTable(now_ms, IDLE_MS, limit, as_broker)
        # Most partitions have no idempotent producers: the table is allocated for the first one.
        self._entries, self._slots = int64s(0), int64s(1)
        self._columns = columns
        self._aborts: memoryview | None = None
        """Columns for ABORT markers, allocated by the first replay."""
        self.open_in_snapshot = 0
        """Number of producers found by `differing` whose snapshot entry has an open transaction."""
        if loaded := {entry.producer_id: entry for entry in entries}:
            self._load(loaded)

    def _load(self, entries: dict[int, ProducerStateEntry]) -> None:
        width = kernel.ENTRY_WIDTH
        for index, entry in enumerate(entries.values()):
            if index == self.state.capacity:
                self._grow()
                if self.is_full:
                    break
            row = [*entry] + [-1] * (width - len(entry))
            if not entry.has_batch:
                row[kernel.LAST_SEQUENCE], row[kernel.LAST_OFFSET], row[kernel.OFFSET_DELTA] = -1, -1, 0
            row[kernel.TXN_BATCHES] = row[kernel.TXN_FILLED] = 0
            row[kernel.DATA_TIMESTAMP] = entry.timestamp
            self.state.load(row)
        opened = [(entry.current_txn_first_offset, index) for index, entry in enumerate(entries.values())]
        for first, index in sorted(opened):
            if 0 <= first and index < len(self):
                self.state.begin_transaction(index)

    def _grow(self) -> None:
        if not self.state.capacity:
            self.state.seed = int.from_bytes(os.urandom(8), "little") >> 1 | 1
        capacity = min(max(2 * self.state.capacity, _FIRST_CAPACITY), MAX_PRODUCERS)
        if capacity == self.state.capacity:
            self.state.is_full = True
            return
        entries = int64s(capacity * kernel.ENTRY_WIDTH)
        entries[: len(self._entries)] = self._entries
        self._entries, self._slots = entries, int64s(2 * capacity)
        self.state.use(self._entries, self._slots)

    @property
    def is_full(self) -> bool:
        """Whether there were more than MAX_PRODUCERS producers; later ones are not in the state."""
        return bool(self.state.is_full)

    @property
    def is_complete(self) -> bool:
        """Whether all batches were accepted and tracked without a gap."""
        state = self.state
        return state.after_damage < 0 and state.after_hole < 0 and not state.is_after_damage and not self.is_full

    def begin(self) -> None:
        """Starts a segment: resets its event counts."""
        self.state.clear()

    def mark_damaged(self) -> None:
        """Records that unreadable bytes precede the next batch."""
        self.state.is_after_damage = True

    @property
    def has_events(self) -> bool:
        """Whether the current segment has had any event."""
        return any(self.state.totals())

    def count_of(self, kind: int) -> int:
        """Number of events of a kind in the current segment."""
        return int(self.state.total_of(kind))

    def replay(
        self, rows: memoryview, count: int, start: int = 0, until: int | None = None
    ) -> tuple[int, list[Event], list[Abort]]:
        """Replays header rows ``start`` to ``count``, up to the first batch that reaches offset ``until``.

        Returns the row at which it stopped, the events, and the markers of aborted transactions.
        """
        state = self.state
        state.stop = -1 if until is None else until
        events: list[Event] = []
        aborts: list[Abort] = []
        if self._aborts is None:
            self._aborts = self._columns("aborts", _ABORT_LIMIT * kernel.ABORT_WIDTH)
            state.write_to(self._columns("producer events", _EVENT_LIMIT * EVENT_WIDTH), self._aborts)
        while True:
            stopped = replay(state, rows, start, count)
            if state.events:
                events += map(Event._make, state.written())
            found = state.aborts
            if found:
                aborts += map(Abort._make, _tuples(self._aborts, found, kernel.ABORT_WIDTH))
            if stopped == count:
                return stopped, events, aborts
            if state.producers == state.capacity and not self.is_full:
                self._grow()
            elif stopped == start and not found:
                return stopped, events, aborts
            start = stopped

    def __len__(self) -> int:
        return int(self.state.producers)

    def entry(self, index: int, marker_effect: int = MARKER_SETS_TIMESTAMP) -> ProducerStateEntry:
        """Returns producer number ``index``, in order of first appearance, as a release's snapshot has it."""
        row = self.state.row(index)
        entry = ProducerStateEntry._make(row[: kernel.TXN_FIRST + 1])
        if marker_effect == MARKER_IGNORED:
            return entry._replace(timestamp=row[kernel.DATA_TIMESTAMP])
        if marker_effect == MARKER_SETS_OFFSET and row[kernel.SEEN] > entry.last_offset:
            return entry._replace(last_offset=row[kernel.SEEN], offset_delta=0)
        return entry

    def restore_batch(self, index: int, entry: ProducerStateEntry) -> None:
        """Gives producer number ``index`` the last data batch of an entry."""
        at = index * kernel.ENTRY_WIDTH
        self._entries[at + kernel.LAST_SEQUENCE] = entry.last_sequence
        self._entries[at + kernel.LAST_OFFSET] = entry.last_offset
        self._entries[at + kernel.OFFSET_DELTA] = entry.offset_delta

    def last_seen(self, index: int) -> int:
        """Last offset of a producer's last batch or marker, -1 if it had none since the state was loaded."""
        return int(self.state.row(index)[kernel.SEEN])

    def entries(self, marker_effect: int = MARKER_SETS_TIMESTAMP) -> Iterator[ProducerStateEntry]:
        """Yields all producers in the order in which they first appeared (see `order_as_broker`)."""
        return (self.entry(index, marker_effect) for index in range(len(self)))

    @property
    def next_offset(self) -> int:
        """Offset after the last replayed batch, 0 if there is none."""
        return int(self.state.largest_offset) + 1

    @property
    def open_count(self) -> int:
        return int(self.state.open)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open, or that has ended since the state was loaded."""
        ended, oldest = int(self.state.first_ended), self.state.oldest
        if oldest < 0:
            return ended if ended >= 0 else None
        first = int(self.state.row(oldest)[kernel.TXN_FIRST])
        return min(first, ended) if ended >= 0 else first

    def ongoing(self) -> Iterator[OngoingTransaction]:
        """Yields the open transactions, oldest first."""
        index = self.state.oldest
        while index >= 0:
            row = self.state.row(index)
            first = row[kernel.TXN_FIRST]
            yield OngoingTransaction(
                row[kernel.ID], row[kernel.EPOCH], first, row[kernel.TXN_POSITION], row[kernel.TXN_TIMESTAMP],
                row[kernel.TXN_BATCHES], row[kernel.TXN_MARKER],
                first >= self.state.after_damage and not self.state.is_after_damage,
            )  # fmt: skip
            index = row[kernel.TXN_BEHIND]

    def differing(self, snapshot: ProducerSnapshot, buffer: Sliceable) -> Iterator[tuple[int, ProducerStateEntry, int]]:
        """Yields the snapshot entries that differ from the state: entry number, entry, and index in the state.

        The index is -1 if the producer was not seen. ``buffer`` holds the bytes of the snapshot.
        """
        found, start, count = self._columns("differing producers", 2 * _EVENT_LIMIT), 0, snapshot.readable_count
        self.open_in_snapshot = 0
        while start < count:
            start = kernel.compare(self.state, buffer, start, count, found)
            self.open_in_snapshot += self.state.differing_open
            for number, index in _tuples(found, self.state.differing, 2):
                yield number, snapshot.entry(number), index


def _tuples(values: memoryview, count: int, width: int) -> Iterator[tuple[int, ...]]:
    numbers = iter(values[: count * width].tolist())
    return zip(*[numbers] * width, strict=True)
