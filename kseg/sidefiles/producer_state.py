"""What a broker knows of the producers of a partition, replayed from the headers of its batches in order.

From it come the .snapshot and .txnindex files of a rebuild (ProducerStateManager, LogSegment.recover), and what is
wrong with the order of sequences, epochs and transactions.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import int64s
from kseg.kernel import producer_table as kernel
from kseg.kernel.events import EVENT_WIDTH
from kseg.kernel.producers import replay
from kseg.sidefiles.producer_snapshot import ProducerSnapshot, ProducerStateEntry
from kseg.sidefiles.transaction_index import VERSION, AbortedTxn

MAX_PRODUCERS = 1 << 20
"""Producers that are followed (some 144 bytes each); a broker has no such bound but its memory."""

IDLE_MS = 24 * 3600 * 1000
"""The default of producer.id.expiration.ms; older brokers remember for 7 days."""

FORM_0_11, FORM_1, FORM_2 = 0, 1, 2
"""What a marker leaves in a snapshot: its offset as that of the last batch (0.11), nothing (1.0 and 1.1), its timestamp
(2.8 for one, and all later ones)."""

_FIRST_ROOM = 16
_EVENT_ROOM = 256
_ABORT_ROOM = 512
_FAR_FUTURE_MS = (1 << 63) - 1


class Event(NamedTuple):
    """An event of `kseg.kernel.producer_table`, a, b and c as told there; ``row`` is that of the batch."""

    kind: int
    row: int
    a: int
    b: int
    c: int


class Abort(NamedTuple):
    """An ABORT marker at ``last_offset``, byte ``position`` of its segment.

    ``first_offset`` is -1 where no transaction was open; ``filled`` counts its batches that still hold records.
    ``is_certain`` tells whether no bytes and no offsets are missing from there to the marker.
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
        """The entry of a rebuilt .txnindex; None where 2.8 and later write none."""
        if self.first_offset < 0:
            return None
        return AbortedTxn(VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class OngoingTransaction(NamedTuple):
    """A transaction that is open. Timestamps are in ms, -1 where there is none.

    ``position`` is that of its first batch in its segment; ``first_marker`` the timestamp of the first marker of any
    producer behind its begin; ``is_certain`` unless its end may lie among what could not be believed.
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
    """State of the producers below the batch that comes next.

    ``entries`` is what an earlier snapshot holds, in its order. Timestamps beyond ``now_ms`` do not count as newest;
    of each kind of event at most ``limit`` are listed in a segment (see `begin`), all are counted.
    ``room(name, count)`` gives int64 columns for what is passed on at once; those who take turns may share them.
    ``as_broker``: batches are taken as they are, as in a broker's replay (`kseg.kernel.producers`).
    """

    def __init__(
        self, entries: Iterable[ProducerStateEntry] = (), now_ms: int = _FAR_FUTURE_MS, limit: int = _EVENT_ROOM,
        room: Callable[[str, int], memoryview] = lambda _name, count: int64s(count), as_broker: bool = False,
    ) -> None:  # fmt: skip
        self.state = kernel.ProducerTable(now_ms, IDLE_MS, limit, as_broker)
        # Most partitions have no producers with an id: room is made for the first one that comes.
        self._entries, self._slots = int64s(0), int64s(1)
        self._columns = room
        self._aborts: memoryview | None = None
        """Columns for ABORT markers, once there is something to replay."""
        self.open_in_snapshot = 0
        """How many of the producers that `differing` found in a snapshot have a transaction open."""
        if loaded := {entry.producer_id: entry for entry in entries}:
            self._load(loaded)

    def _load(self, entries: dict[int, ProducerStateEntry]) -> None:
        width = kernel.ENTRY_WIDTH
        for index, entry in enumerate(entries.values()):
            if index == self.state.room:
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
        if not self.state.room:
            self.state.seed = int.from_bytes(os.urandom(8), "little") >> 1 | 1
        room = min(max(2 * self.state.room, _FIRST_ROOM), MAX_PRODUCERS)
        if room == self.state.room:
            self.state.is_full = True
            return
        entries = int64s(room * kernel.ENTRY_WIDTH)
        entries[: len(self._entries)] = self._entries
        self._entries, self._slots = entries, int64s(2 * room)
        self.state.use(self._entries, self._slots)

    @property
    def is_full(self) -> bool:
        """Whether there were more than MAX_PRODUCERS: what came later is not in the state."""
        return bool(self.state.is_full)

    @property
    def is_complete(self) -> bool:
        """Whether all that was seen could be believed and followed without a gap."""
        state = self.state
        return state.after_damage < 0 and state.after_hole < 0 and not state.is_after_damage and not self.is_full

    def begin(self) -> None:
        """A segment begins: its events are counted anew."""
        self.state.clear()

    def tell_damage(self) -> None:
        """What follows comes behind bytes that could not be read."""
        self.state.is_after_damage = True

    @property
    def has_events(self) -> bool:
        """Whether anything happened in the segment so far."""
        return any(self.state.totals())

    def count_of(self, kind: int) -> int:
        """Events of a kind in the segment so far."""
        return int(self.state.total_of(kind))

    def replay(
        self, rows: memoryview, count: int, start: int = 0, until: int | None = None
    ) -> tuple[int, list[Event], list[Abort]]:
        """Takes up rows ``start`` to ``count`` of headers, up to the first batch that reaches offset ``until``.

        The row before which it stopped, what happened, and the markers of aborted transactions.
        """
        state = self.state
        state.stop = -1 if until is None else until
        events: list[Event] = []
        aborts: list[Abort] = []
        if self._aborts is None:
            self._aborts = self._columns("aborts", _ABORT_ROOM * kernel.ABORT_WIDTH)
            state.write_to(self._columns("producer events", _EVENT_ROOM * EVENT_WIDTH), self._aborts)
        while True:
            stopped = replay(state, rows, start, count)
            if state.events:
                events += map(Event._make, state.written())
            found = state.aborts
            if found:
                aborts += map(Abort._make, _tuples(self._aborts, found, kernel.ABORT_WIDTH))
            if stopped == count:
                return stopped, events, aborts
            if state.producers == state.room and not self.is_full:
                self._grow()
            elif stopped == start and not found:
                return stopped, events, aborts
            start = stopped

    def __len__(self) -> int:
        return int(self.state.producers)

    def entry(self, index: int, form: int = FORM_2) -> ProducerStateEntry:
        """The producer that was the index-th to be seen, as a snapshot of a release has it (FORM_…)."""
        row = self.state.row(index)
        entry = ProducerStateEntry._make(row[: kernel.TXN_FIRST + 1])
        if form == FORM_1:
            return entry._replace(timestamp=row[kernel.DATA_TIMESTAMP])
        if form == FORM_0_11 and row[kernel.SEEN] > entry.last_offset:
            return entry._replace(last_offset=row[kernel.SEEN], offset_delta=0)
        return entry

    def last_seen(self, index: int) -> int:
        """Last offset of the last batch or marker of a producer, -1 where none came since it was loaded."""
        return int(self.state.row(index)[kernel.SEEN])

    def entries(self, form: int = FORM_2) -> Iterator[ProducerStateEntry]:
        """All producers in the order in which they were first seen (see `order_as_broker`)."""
        return (self.entry(index, form) for index in range(len(self)))

    @property
    def next_offset(self) -> int:
        """Offset behind the last batch that was taken up, 0 without one."""
        return int(self.state.largest_offset) + 1

    @property
    def open_count(self) -> int:
        return int(self.state.open)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open, or has ended since the state was loaded."""
        ended, oldest = int(self.state.first_ended), self.state.oldest
        if oldest < 0:
            return ended if ended >= 0 else None
        first = int(self.state.row(oldest)[kernel.TXN_FIRST])
        return min(first, ended) if ended >= 0 else first

    def ongoing(self) -> Iterator[OngoingTransaction]:
        """The open transactions, oldest first."""
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

    def differing(self, snapshot: ProducerSnapshot, buffer: Any) -> Iterator[tuple[int, ProducerStateEntry, int]]:
        """Entries of a snapshot that are not those of the state: their number there, the entry, its index in the state.

        -1 stands for a producer that was not seen. ``buffer`` holds the bytes of the snapshot.
        """
        found, start, count = self._columns("differing producers", 2 * _EVENT_ROOM), 0, snapshot.readable_count
        self.open_in_snapshot = 0
        while start < count:
            start = kernel.compare(self.state, buffer, start, count, found)
            self.open_in_snapshot += self.state.differing_open
            for number, index in _tuples(found, self.state.differing, 2):
                yield number, snapshot.entry(number), index


def _tuples(values: memoryview, count: int, width: int) -> Iterator[tuple[int, ...]]:
    numbers = iter(values[: count * width].tolist())
    return zip(*[numbers] * width, strict=True)
