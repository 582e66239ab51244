"""``.snapshot``: the producer state of a partition below the offset in the name (ProducerStateManager; since 0.11).

    0          version                 int16    1
    2          crc                     uint32   CRC-32C of all following bytes
    6          number of entries       int32
    10 + 46i   producerId              int64
      + 8      epoch                   int16
      + 10     lastSequence            int32
      + 14     lastOffset              int64    -1: only a marker was seen
      + 22     offsetDelta             int32    last offset - base offset of the last batch
      + 26     timestamp               int64    ms
      + 34     coordinatorEpoch        int32
      + 38     currentTxnFirstOffset   int64    -1: no open transaction

A broker keeps up to five batches per producer in memory; only the last is written.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kseg.formats.byte_types import Sliceable
from kseg.kernel.scan.checksums import crc32c
from kseg.limits import WINDOW_BYTES
from kseg.sidefiles.hash_order import FIRST_CAPACITY, hash_map_order
from kseg.sidefiles.problems import SideFileProblem

VERSION = 1
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
        step = WINDOW_BYTES // ENTRY.size * ENTRY.size
        end = HEADER_BYTES + self.readable_count * ENTRY.size
        for start in range(HEADER_BYTES, end, step):
            window = bytes(self.buffer[start : min(start + step, end)])
            yield from map(ProducerStateEntry._make, ENTRY.iter_unpack(window))

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
        reason = self._schema_refusal()
        if reason:
            return f"Snapshot failed schema validation: {reason}"
        computed = self.computed_crc()
        if self.crc != computed:
            return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {self.crc}. Computed crc: {computed}"
        return None

    def _schema_refusal(self) -> str | None:
        if self.version is None:
            return "null"
        if self.version != VERSION:
            return f"Snapshot contained an unknown file version {self.version}"
        if self.count is None:
            return "null"
        if self.count < 0:
            return "non-nullable field producerEntries was serialized as null"
        left = self.size - HEADER_BYTES
        if self.count > left:
            claim = f"Tried to allocate a collection of size {self.count}"
            return f"{claim}, but there are only {left} bytes remaining."
        return "null" if self.count > self.capacity else None

    def problems(self) -> Iterator[SideFileProblem]:
        """Yields all problems of the file."""
        if self.version is not None and self.version != VERSION:
            yield SideFileProblem("unknown-version", 0, 2, f"version {self.version} is not {VERSION}")
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


def build_producer_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Returns the bytes of a .snapshot file, with the entries in the given order (see `order_as_broker`)."""
    packed = [ENTRY.pack(*entry) for entry in entries]
    body = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", VERSION, crc32c(body, 0)) + body


def order_as_broker(entries: Iterable[ProducerStateEntry], capacity: int = FIRST_CAPACITY) -> list[ProducerStateEntry]:
    """Sorts entries into the order in which a broker writes them.

    ``entries`` must be in the order in which their producers first appeared. For ``capacity`` see
    `kseg.sidefiles.hash_order`.
    """
    by_id = {entry.producer_id: entry for entry in entries}
    return [by_id[producer_id] for producer_id in hash_map_order(by_id, capacity)]
