"""The producer state of a partition: its .snapshot files, and its replay from batch headers in order
(ProducerStateManager, LogSegment.recover).

The replay gives the contents of rebuilt .snapshot and .txnindex files, and errors in the order of sequence numbers,
producer epochs and transactions.
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable, int64s
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.kernel.state import producers as kernel
from kseg.kernel.state.producers import replay
from kseg.limits import WINDOW_BYTES
from kseg.quantities import DAY_MS
from kseg.sidefiles.indexes import TRANSACTION_VERSION, AbortedTxn, unpacked
from kseg.sidefiles.problems import SideFileProblem

# ``.snapshot``: the producer state of a partition below the offset in the name (ProducerStateManager; since 0.11).
#
#     0          version                 int16    1
#     2          crc                     uint32   CRC-32C of all following bytes
#     6          number of entries       int32
#     10 + 46i   producerId              int64
#       + 8      epoch                   int16
#       + 10     lastSequence            int32
#       + 14     lastOffset              int64    -1: only a marker was seen
#       + 22     offsetDelta             int32    last offset - base offset of the last batch
#       + 26     timestamp               int64    ms
#       + 34     coordinatorEpoch        int32
#       + 38     currentTxnFirstOffset   int64    -1: no open transaction
#
# A broker keeps up to five batches per producer in memory; only the last is written.

SNAPSHOT_VERSION = 1
HEADER_BYTES = 10
CRC_START = 6
ENTRY = struct.Struct(">qhiqiqiq")


class ProducerStateEntry(NamedTuple):
    """The state of one producer as stored in the file. ``timestamp`` is in ms."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def has_batch(self) -> bool:
        """Whether the entry has a last data batch."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence number of the last batch's first record; sequence numbers wrap around after 2^31 - 1."""
        first = self.last_sequence - self.offset_delta
        if self.last_sequence < self.offset_delta:
            first += 1 << 31
        return (first + (1 << 31)) % (1 << 32) - (1 << 31)


class ProducerSnapshot:
    """A .snapshot file. ``version``, ``crc`` and ``count`` are None if the file is too short to hold them."""

    def __init__(self, buffer: Sliceable) -> None:
        self.buffer = buffer
        self.size = len(buffer)
        head = bytes(buffer[: min(HEADER_BYTES, self.size)])
        self.version = int.from_bytes(head[:2], "big", signed=True) if len(head) >= 2 else None
        self.crc = int.from_bytes(head[2:6], "big") if len(head) >= CRC_START else None
        self.count = int.from_bytes(head[6:10], "big", signed=True) if len(head) == HEADER_BYTES else None
        self.capacity = max(0, self.size - HEADER_BYTES) // ENTRY.size

    @property
    def readable_count(self) -> int:
        """Number of entries that are both claimed by the count and present in the file."""
        return min(max(self.count or 0, 0), self.capacity)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return map(ProducerStateEntry._make, unpacked(self.buffer, ENTRY, HEADER_BYTES, self.readable_count))

    def entry(self, number: int) -> ProducerStateEntry:
        """Returns entry ``number``, which must be below `readable_count`."""
        start = HEADER_BYTES + number * ENTRY.size
        return ProducerStateEntry._make(ENTRY.unpack(bytes(self.buffer[start : start + ENTRY.size])))

    def computed_crc(self) -> int:
        """CRC-32C from the count to the end of the file."""
        crc = 0
        for start in range(CRC_START, self.size, WINDOW_BYTES):
            crc = crc32c(self.buffer[start : min(start + WINDOW_BYTES, self.size)], crc)
        return crc

    def kafka_refusal(self) -> str | None:
        """The message with which readSnapshot of 4.3.1 rejects the file, None if it accepts it."""
        left, reason = self.size - HEADER_BYTES, ""
        if self.version is not None and self.version != SNAPSHOT_VERSION:
            reason = f"Snapshot contained an unknown file version {self.version}"
        elif self.version is None or self.count is None or self.capacity < self.count <= left:
            reason = "null"
        elif self.count < 0:
            reason = "non-nullable field producerEntries was serialized as null"
        elif self.count > left:
            claim = f"Tried to allocate a collection of size {self.count}"
            reason = f"{claim}, but there are only {left} bytes remaining."
        if reason:
            return f"Snapshot failed schema validation: {reason}"
        computed = self.computed_crc()
        if self.crc != computed:
            return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {self.crc}. Computed crc: {computed}"
        return None

    def problems(self) -> Iterator[SideFileProblem]:
        """Yields all problems of the file."""
        if self.version is not None and self.version != SNAPSHOT_VERSION:
            yield SideFileProblem("unknown-version", 0, 2, f"version {self.version} is not {SNAPSHOT_VERSION}")
        if self.count is None or self.crc is None:
            message = f"{self.size} bytes are less than the {HEADER_BYTES} of a snapshot without entries"
            yield SideFileProblem("truncated-file", 0, self.size, message)
            return
        if (computed := self.computed_crc()) != self.crc:
            message = f"stored CRC {self.crc}, computed {computed}"
            yield SideFileProblem("crc-mismatch", CRC_START, self.size - CRC_START, message)
        end = HEADER_BYTES + self.readable_count * ENTRY.size
        if self.count < 0 or self.count > self.capacity:
            message = f"the count is {self.count}, but the file has {self.capacity} entries"
            yield SideFileProblem("wrong-count", CRC_START, 4, message)
        if end < self.size:
            message = f"{self.size - end} bytes after the last entry"
            yield SideFileProblem("trailing-bytes", end, self.size - end, message)


def read_producer_snapshot(buffer: Sliceable) -> Iterator[ProducerStateEntry | SideFileProblem]:
    """Yields the problems, then the readable entries, also of a file that Kafka rejects."""
    snapshot = ProducerSnapshot(buffer)
    yield from snapshot.problems()
    yield from snapshot


def build_producer_snapshot(
    entries: Iterable[ProducerStateEntry], order: Callable[[Iterable[int]], Iterable[int]] = iter
) -> bytes:
    """Returns the bytes of a .snapshot file.

    ``order`` returns the producer ids in the order of the file, given those of the entries: `hash_map_order` is that of
    brokers since 3.5, if the entries are in the order in which their producers first appeared.
    """
    by_id = {entry.producer_id: entry for entry in entries}
    packed = [ENTRY.pack(*by_id[producer_id]) for producer_id in order(by_id)]
    body = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body, 0)) + body


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
    """An event of `kseg.kernel.state.producers`, which defines a, b and c; ``row`` is the batch's row."""

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
        return AbortedTxn(
            TRANSACTION_VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset
        )


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
    timestamp is determined. Per segment at most ``limit`` events of each kind are listed; all are counted in ``state``,
    the kernel's table, whose ``clear`` begins a segment, and whose ``is_after_damage`` records that unreadable bytes
    precede the next batch. ``columns(name, count)`` returns int64 scratch columns; instances that are never active at
    the same time may share them. ``as_broker``: batches are accepted unchecked, as in a broker's replay
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
        loaded = {entry.producer_id: entry for entry in entries}.values()
        width = kernel.ENTRY_WIDTH
        for index, entry in enumerate(loaded):
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
        opened = [(entry.current_txn_first_offset, index) for index, entry in enumerate(loaded)]
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
        """Yields all producers in the order in which they first appeared."""
        return (self.entry(index, marker_effect) for index in range(len(self)))

    @property
    def next_offset(self) -> int:
        """Offset after the last replayed batch, 0 if there is none."""
        return int(self.state.largest_offset) + 1

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
