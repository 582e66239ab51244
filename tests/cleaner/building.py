"""Builds batches from records: v2 batches, and v0 and v1 messages, uncompressed or with a compressed message set.

The builder handles one record at a time in Python. It is independent of `kseg.formats.areas`, which tests compare with
it. The bytes are those of Kafka's MemoryRecordsBuilder; `record_batch` and `message_set` document the layouts.
Compression uses this machine's libraries (`compressing`).
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from kseg.formats.compressing import Target, compress, target_of
from kseg.kernel.records.building import seal

_HEADER = Struct(">qiibIhiqqqhii")
_INT32 = Struct(">i")
_ENTRY = Struct(">qi")
_V1 = Struct(">bbq")
_LZ4, _LOG_APPEND, _TRANSACTIONAL, _CONTROL = 3, 8, 16, 32
_WRAP = 1 << 64


class NewRecord(NamedTuple):
    """One record; ``timestamp`` in ms. Headers are pairs of a key and a value, which may be None."""

    offset: int
    timestamp: int
    key: Any | None
    value: Any | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class BatchFields(NamedTuple):
    """Header fields of a v2 batch besides offsets, times and counts; -1: unset. ``attributes`` as stored in the file.

    ``delete_horizon_ms`` is used if the attributes have the delete horizon flag.
    """

    attributes: int = 0
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    delete_horizon_ms: int = -1


def build_record_batch(
    records: Sequence[NewRecord],
    fields: BatchFields,
    base_offset: int | None = None,
    last_offset: int | None = None,
    append_time_ms: int = -1,
    target: Target | None = None,
) -> bytes:
    """Builds a v2 batch of at least one record.

    The batch offsets default to those of the first and last record. ``append_time_ms``: the timestamp of all records if
    the attributes say LogAppendTime. ``target``: the compression level, by default Kafka's.
    """
    attributes = fields.attributes
    if attributes & _LOG_APPEND:
        records = [record._replace(timestamp=append_time_ms) for record in records]
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    base_timestamp = fields.delete_horizon_ms if attributes & 64 else records[0].timestamp
    largest = max(record.timestamp for record in records)
    area = b"".join(_record(record, base_offset, base_timestamp) for record in records)
    if codec := attributes & 7:
        area = compress(target or target_of(codec), area)
    model = _HEADER.pack(
        base_offset, 0, fields.partition_leader_epoch, 2, 0, 0, last_offset - base_offset, 0, 0, fields.producer_id,
        fields.producer_epoch, fields.base_sequence, 0,
    )  # fmt: skip
    batch = bytearray(len(model) + len(area))
    batch[len(model) :] = area
    seal(batch, 0, len(batch), model, attributes, base_timestamp, largest, len(records))
    return bytes(batch)


def build_marker(offset: int, producer_id: int, commits: bool, producer_epoch: int = 0) -> bytes:
    """Builds the batch that ends a transaction (EndTransactionMarker)."""
    record = NewRecord(offset, 1_000_000 + offset, bytes([0, 0, 0, commits]), bytes(6))
    fields = BatchFields(_TRANSACTIONAL | _CONTROL, producer_id=producer_id, producer_epoch=producer_epoch)
    return build_record_batch([record], fields)


def _record(record: NewRecord, base_offset: int, base_timestamp: int) -> bytes:
    delta = (record.timestamp - base_timestamp + _WRAP // 2) % _WRAP - _WRAP // 2
    parts = [b"\0", _varint(delta), _varint(record.offset - base_offset), *_sized(record.key), *_sized(record.value)]
    parts.append(_varint(len(record.headers)))
    for key, value in record.headers:
        parts += [*_sized(key), *_sized(value)]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _sized(data: Any | None) -> tuple[bytes, ...]:
    return (_varint(-1),) if data is None else (_varint(len(data)), bytes(data))


def _varint(value: int) -> bytes:
    rest, found = (value << 1 ^ value >> 63) % _WRAP, bytearray()
    while rest >= 128:
        found.append(rest & 127 | 128)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def build_message(record: NewRecord, magic: int, attributes: int = 0, offset: int | None = None) -> bytes:
    """Builds a v0 or v1 message; ``offset`` is its stored offset if that is not the record's own."""
    fixed = bytes([0, attributes]) if magic == 0 else _V1.pack(1, attributes, record.timestamp)
    body = b"".join([fixed, *_legacy(record.key), *_legacy(record.value)])
    at = record.offset if offset is None else offset
    return _ENTRY.pack(at, len(body) + 4) + crc32(body).to_bytes(4, "big") + body


def _legacy(data: Any | None) -> tuple[bytes, ...]:
    return (_INT32.pack(-1),) if data is None else (_INT32.pack(len(data)), bytes(data))


def build_message_set(records: Sequence[NewRecord], magic: int, attributes: int, timestamp: int = -1) -> bytes:
    """Builds a compressed v0 or v1 message with an inner message set; ``attributes`` hold the codec.

    Inner offsets of v1 are relative to the first message. The outer timestamp is ``timestamp`` if the attributes say
    LogAppendTime, else the largest inner one.
    """
    first, last = records[0].offset, records[-1].offset
    inner: Iterable[bytes] = (
        build_message(record, magic, 0, record.offset - first if magic else record.offset) for record in records
    )
    codec = attributes & 7
    value = bytearray(compress(target_of(codec), b"".join(inner)))
    if codec == _LZ4 and magic == 0:
        value[6] = _broken_checksum(value)
    if not attributes & _LOG_APPEND:
        timestamp = max(record.timestamp for record in records)
    return build_message(NewRecord(last, timestamp, None, value), magic, attributes)


def _broken_checksum(frame: bytearray) -> int:
    """The lz4 frame header checksum as v0 computes it: over lz4's own four magic bytes too (KAFKA-3160)."""
    known = {(0x60, 0x40): 0x1A}
    return known[frame[4], frame[5]]
