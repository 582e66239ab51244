"""Replays __consumer_offsets to the committed offsets that are in effect, as a group coordinator loads them.

A commit with a producer id is pending until a marker ends its transaction. COMMIT puts it into effect unless a later
record has set the same offset; ABORT drops it. A null value removes an offset, including the pending ones of every
transaction. Key versions 0 and 1 of a commit are equivalent. Offsets beyond their retention stay: the coordinator
writes a null value when it removes one. Source: OffsetMetadataManager, GroupCoordinatorShard and CoordinatorLoaderImpl
of Kafka 4.3.1; KIP-98, KIP-447.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kseg.decoders.keyed import decoder
from kseg.formats.control import parse_control
from kseg.formats.json_values import unset
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Rows, UndecodableError
from kseg.formats.schema import ZERO_UUID
from kseg.segment.items import Batch, RecordBatch

_NO_PRODUCER = -1
_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT = b"\0\0", b"\0\1"
_LENGTH = struct.Struct(">h")
_PARTITION_BYTES = 4
_VERSION_AND_OFFSET, _EPOCH, _FIRST_WITH_EPOCH = struct.Struct(">hq"), struct.Struct(">i"), 3

Spans = Callable[[Rows], Iterable[tuple[int, int]]]


CommittedOffset = dict[str, Any]
"""An offset committed by a group, as in JSON: ``group``, ``topic``, ``partition``, ``offset``, ``leaderEpoch``,
``metadata``, ``commitTimestamp``, ``expireTimestamp``, ``topicId``, ``recordOffset`` (of the commit record in
__consumer_offsets) and ``error``.

Timestamps are in ms. Leader epoch, expiry and topic id are None if the commit has none. If the value cannot be decoded,
``error`` is the reason, and ``offset`` and what else it holds is None.
"""

_Held = tuple[int, bytes, bytes]
"""Offset, key and value of a commit record; decoded only if the commit is in effect at the end."""


class CommittedOffsets:
    """Replays one partition of __consumer_offsets. Memory grows with the number of effective and pending offsets.

    ``undecodable`` counts unreadable commit keys, and batches whose records become unreadable.
    """

    def __init__(self) -> None:
        self.undecodable = 0
        self._offsets: dict[bytes, _Held] = {}
        self._pending: dict[int, dict[bytes, _Held]] = defaultdict(dict)
        self._pending_in: dict[bytes, set[int]] = defaultdict(set)

    @property
    def pending(self) -> int:
        """Number of commits in transactions that no marker has ended."""
        return sum(map(len, self._pending.values()))

    def add(self, batch: Batch, spans: Spans | None = None) -> None:
        """Adds the next batch of the partition; ``spans`` are the row ranges (first, stop) to read, None for all."""
        producer_id = batch.header.producer_id if isinstance(batch, RecordBatch) else _NO_PRODUCER
        try:
            for rows in batch.rows():
                for first, stop in ((0, rows.count),) if spans is None else spans(rows):
                    if batch.is_control:
                        self._end(producer_id, rows, first, stop)
                    else:
                        self._take(producer_id, rows, first, stop)
        except UndecodableError:
            self.undecodable += 1

    def add_rows(self, rows: Rows) -> None:
        """Adds the next records of batches that no producer with an id has written."""
        self._take(_NO_PRODUCER, rows, 0, rows.count)

    def found(self) -> Iterator[CommittedOffset]:
        """Yields the offsets in effect, in no particular order."""
        read = decoder("offsets")
        for record_offset, key, value in self._offsets.values():
            decoded = read.decode(key, value, record_offset)
            data = decoded.value.get("data", {})
            topic_id = data.get("topicId", ZERO_UUID)
            yield {
                **decoded.key["data"],
                "offset": data.get("offset"),
                "leaderEpoch": unset(data.get("leaderEpoch", -1)),
                "metadata": data.get("metadata"),
                "commitTimestamp": data.get("commitTimestamp"),
                "expireTimestamp": unset(data.get("expireTimestamp", -1)),
                "topicId": None if topic_id == ZERO_UUID else topic_id,
                "recordOffset": record_offset,
                "error": decoded.value.get("error"),
            }

    def positions(self) -> Iterator[tuple[bytes, int, int, int | None]]:
        """Yields topic, partition, committed offset and leader epoch of the offsets in effect, which are at the same
        place in all versions of a value; an epoch of -1 or of an older version as None."""
        for place, (_, _, value) in self._offsets.items():
            if _VERSION_AND_OFFSET.size <= len(value):
                version, offset = _VERSION_AND_OFFSET.unpack_from(value)
                has_epoch = version >= _FIRST_WITH_EPOCH and len(value) >= _VERSION_AND_OFFSET.size + _EPOCH.size
                epoch = _EPOCH.unpack_from(value, _VERSION_AND_OFFSET.size)[0] if has_epoch else -1
                topic_at = _LENGTH.size + _LENGTH.unpack_from(place)[0] + _LENGTH.size
                topic, partition = place[topic_at:-_PARTITION_BYTES], place[-_PARTITION_BYTES:]
                yield topic, int.from_bytes(partition, "big", signed=True), offset, unset(epoch)

    def _take(self, producer_id: int, rows: Rows, first: int, stop: int) -> None:
        for offset, key, value in rows.entries(first, stop):
            if key is None or not key.startswith((_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT)):
                continue
            place = _place(key)
            if place is None:
                self.undecodable += 1
            elif value is None:
                self._offsets.pop(place, None)
                for pending_in in self._pending_in.pop(place, ()):
                    self._pending[pending_in].pop(place, None)
            elif producer_id == _NO_PRODUCER:
                self._offsets[place] = offset, key, value
            else:
                self._pending[producer_id][place] = offset, key, value
                self._pending_in[place].add(producer_id)

    def _end(self, producer_id: int, rows: Rows, first: int, stop: int) -> None:
        for _, key, value in rows.entries(first, stop):
            kind = parse_control(key, value).type_id
            if kind not in (ABORT, COMMIT):
                continue
            for place, held in self._pending.pop(producer_id, {}).items():
                others = self._pending_in[place]
                others.discard(producer_id)
                if not others:
                    del self._pending_in[place]
                if kind == COMMIT and (place not in self._offsets or held[0] > self._offsets[place][0]):
                    self._offsets[place] = held


def _place(key: bytes) -> bytes | None:
    """Returns the part of a commit's key that identifies group, topic and partition; None if the key is too short."""
    at = 2
    for _ in ("group", "topic"):
        if len(key) < at + _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(key, at)
        if length < 0:
            return None
        at += _LENGTH.size + length
    end = at + _PARTITION_BYTES
    return key[2:end] if end <= len(key) else None
