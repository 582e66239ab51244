"""Builds batches: v2 batches from record areas, v0 and v1 messages, and compressed messages around message sets.

The bytes are those of Kafka's MemoryRecordsBuilder: a batch stores offsets relative to its base offset and timestamps
relative to its first record's. `kseg.formats.record_batch` and `message_set` document the layouts.
"""

import struct
import zlib

from kseg.formats.compressing import Target, compress
from kseg.formats.compression import KAFKA_3160_LZ4_HEADER, LZ4_HEADER
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader, packed_batch
from kseg.formats.rows import BytesLike, Rows
from kseg.kernel.layout.headers import CODEC, LZ4, MAGIC_V2, V0_FIELDS, struct_of
from kseg.kernel.records import building as kernel

NONE = Target(0, None)
"""No compression."""
MAX_AREA_BYTES = (1 << 31) - 1 - HEADER_BYTES

_OFFSET_SIZE_CRC = struct_of(V0_FIELDS[:3])
_INITIAL_BYTES = 64 << 10


def build_batch(header: RecordBatchHeader, area: BytesLike, target: Target) -> bytes:
    """Returns a v2 batch; length, checksum, magic and codec of ``header`` are replaced. ``area``: the record bytes.

    Raises ValueError if the batch would exceed the maximum batch size.
    """
    packed = area if target.codec == 0 else compress(target, area)
    if len(packed) > MAX_AREA_BYTES:
        raise ValueError(f"a batch of {len(packed)} bytes is larger than its length field can say")
    checked = header.attributes & ~CODEC | target.codec, *header[6:]
    return packed_batch(header.base_offset, header.partition_leader_epoch, checked, packed)


def build_wrapper(
    magic: int, offset: int, timestamp: int, attributes: int, messages: BytesLike, target: Target
) -> bytes:
    """Returns a compressed message of magic 0 or 1 around a message set; ``attributes`` exclude the codec."""
    value = compress(target, messages)
    if magic == 0 and target.codec == LZ4 and value.startswith(LZ4_HEADER):
        value = KAFKA_3160_LZ4_HEADER + value[len(LZ4_HEADER) :]
    covered = struct.pack(">bb", magic, attributes | target.codec)
    if magic:
        covered += struct.pack(">q", timestamp)
    covered += struct.pack(">ii", -1, len(value))
    crc = zlib.crc32(value, zlib.crc32(covered))
    size = 4 + len(covered) + len(value)
    return b"".join((_OFFSET_SIZE_CRC.pack(offset, size, crc), covered, value))


class Area(kernel.AreaWriter):  # type: ignore[misc]
    """Collects the records of one batch: `add` appends as many as fit, `take` returns the bytes.

    ``magic`` 2: a record area. 0 or 1: messages; the offsets of v1 messages that will be compressed (``is_relative``)
    are relative to the first. ``initial_bytes``: buffer size.
    """

    def __init__(
        self, magic: int, is_relative: bool = False, attributes: int = 0, initial_bytes: int = _INITIAL_BYTES
    ) -> None:
        self.magic = magic
        self.is_relative = is_relative and magic == 1
        self.attributes = attributes
        self._buffer = bytearray(initial_bytes)
        super().__init__(self._buffer)

    def begin(self, base_offset: int, limit: int = MAX_AREA_BYTES, base_timestamp: int | None = None) -> None:
        """Starts a batch with that base offset. Beyond ``limit`` bytes only a first record is accepted.

        ``base_timestamp`` is in ms; None for the first record's timestamp.
        """
        super().begin(base_offset, limit, base_timestamp)

    def add(self, rows: Rows, first: int, stop: int) -> int:
        """Appends rows from ``first`` on; returns the row at which it stopped."""
        while True:
            if self.magic == MAGIC_V2:
                first = kernel.add_records(self, rows.payload, rows.rows, rows.headers, first, stop)
            else:
                base = self.base_offset if self.is_relative else 0
                first = kernel.add_messages(
                    self, rows.payload, rows.rows, first, stop, self.magic, self.attributes, base
                )
            if not self.needed or self.needed > MAX_AREA_BYTES:
                return first
            wider = bytearray(max(self.needed, 2 * len(self._buffer)))
            wider[: self.end] = memoryview(self._buffer)[: self.end]
            self._buffer = wider
            self.use(wider)

    def take(self) -> bytes:
        """Returns a copy of the bytes."""
        return bytes(memoryview(self._buffer)[: self.end])
