"""Builds batches from records: v2 batches, and v0 and v1 messages, uncompressed or with a compressed message set.

The bytes are those of Kafka's MemoryRecordsBuilder, one record at a time in Python: independent of
`kseg.formats.compressing`, but for this machine's libraries of the codecs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kernel.rendering import batch, message, record
from kseg.formats.compressing import compress, target_of

_LZ4, LOG_APPEND, TRANSACTIONAL, _CONTROL = 3, 8, 16, 32
_V0_LZ4_CHECKSUM = {(0x60, 0x40): 0x1A}
"""The checksum of an lz4 frame header as v0 computes it: over lz4's own four magic bytes too (KAFKA-3160)."""


class NewRecord(NamedTuple):
    """One record; ``timestamp`` in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def build_record_batch(records: Sequence[NewRecord], attributes: int = 0, **fields: int) -> bytes:
    """Builds a v2 batch of at least one record; ``fields`` as in `kernel.rendering.batch`."""
    first, last, start = records[0].offset, records[-1].offset, records[0].timestamp
    area = b"".join(record(each.offset - first, each.timestamp - start, each.key, each.value) for each in records)
    if codec := attributes & 7:
        area = compress(target_of(codec), area)
    largest = max(each.timestamp for each in records)
    fields = {"leader_epoch": -1, "last_delta": last - first, "count": len(records), **fields}
    return batch([area], first, attributes, start, largest, **fields)


def build_marker(offset: int, producer: int, commits: bool) -> bytes:
    """Builds the batch that ends a transaction (EndTransactionMarker)."""
    end = NewRecord(offset, 1_000_000 + offset, bytes([0, 0, 0, commits]), bytes(6))
    return build_record_batch([end], TRANSACTIONAL | _CONTROL, producer=producer, epoch=0)


def build_message(record: NewRecord, magic: int, attributes: int = 0) -> bytes:
    """Builds a v0 or v1 message."""
    return message(record.offset, magic, record.key, record.value, record.timestamp, attributes)


def build_message_set(records: Sequence[NewRecord], magic: int, attributes: int) -> bytes:
    """Builds a compressed v0 or v1 message with an inner message set; ``attributes`` hold the codec.

    Inner offsets of v1 are relative to the first message. The outer timestamp is the largest inner one.
    """
    first, last, codec = records[0].offset, records[-1].offset, attributes & 7
    inner = b"".join(build_message(each._replace(offset=each.offset - first * magic), magic) for each in records)
    value = bytearray(compress(target_of(codec), inner))
    if codec == _LZ4 and magic == 0:
        value[6] = _V0_LZ4_CHECKSUM[value[4], value[5]]
    largest = max(each.timestamp for each in records)
    return build_message(NewRecord(last, largest, None, bytes(value)), magic, attributes)
