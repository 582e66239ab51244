"""Compresses record areas in the form that Kafka's producers and brokers use, and builds batches.

These are v2 batches from record areas, v0 and v1 messages, and compressed messages around message sets.

    gzip    one member
    snappy  a xerial stream, one block per 32 KiB
    lz4     one frame of independent 64 KiB blocks; level 9, Kafka's default, selects the fast compressor
    zstd    one frame

Sizes depend on this machine's libraries. A broker's sizes differ slightly, by library version and by the pieces in
which it passes the data. Levels and defaults: Kafka's CompressionType (KIP-390).
"""

import struct
import threading
import zlib
from dataclasses import dataclass
from typing import Any, Literal

from kseg.formats.compression import CODEC_NAMES, GZIP, KAFKA_3160_LZ4_HEADER, LZ4, LZ4_HEADER, SNAPPY, ZSTD
from kseg.formats.record_batch import RecordBatchHeader, packed_batch
from kseg.formats.rows import BytesLike
from kseg.kernel.layout.headers import CODEC, V0_FIELDS, struct_of
from kseg.kernel.records.building import MAX_AREA_BYTES

LEVELS = {"gzip": (1, 9, 6), "lz4": (1, 17, 9), "zstd": (-131072, 22, 3)}
"""Codec to its lowest, highest and default level; codecs without levels are missing."""

Codec = Literal[
    "none", "gzip", "snappy", "lz4", "zstd",
    "gzip:1", "gzip:2", "gzip:3", "gzip:4", "gzip:5", "gzip:6", "gzip:7", "gzip:8", "gzip:9",
    "lz4:1", "lz4:2", "lz4:3", "lz4:4", "lz4:5", "lz4:6", "lz4:7", "lz4:8", "lz4:9", "lz4:10", "lz4:11", "lz4:12",
    "lz4:13", "lz4:14", "lz4:15", "lz4:16", "lz4:17",
    "zstd:1", "zstd:2", "zstd:3", "zstd:4", "zstd:5", "zstd:6", "zstd:7", "zstd:8", "zstd:9", "zstd:10", "zstd:11",
    "zstd:12", "zstd:13", "zstd:14", "zstd:15", "zstd:16", "zstd:17", "zstd:18", "zstd:19", "zstd:20", "zstd:21",
    "zstd:22",
]  # fmt: skip
"""A codec, with a level where it has levels. Negative levels of zstd are taken too."""

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK = 32 << 10
_LZ4_FAST = 9

_of_thread = threading.local()


@dataclass(frozen=True, slots=True)
class Target:
    """A codec, as in batch attributes (0: no compression), and its level; None if the codec has no levels."""

    codec: int
    level: int | None

    @property
    def name(self) -> str:
        return CODEC_NAMES[self.codec]

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}:{self.level}"


def target_of(codec: int) -> Target:
    """Returns a codec (0 to 4) at Kafka's default level."""
    levels = LEVELS.get(CODEC_NAMES[codec])
    return Target(codec, levels[2] if levels else None)


def parse_target(text: str) -> Target:
    """Parses ``zstd``, ``zstd:19``, ``gzip``, ...; the level defaults to Kafka's.

    Raises ValueError with a sentence for users.
    """
    name, colon, level = text.partition(":")
    if name not in CODEC_NAMES[1:]:
        raise ValueError(f"{name!r} is no codec: gzip, snappy, lz4 or zstd")
    target = target_of(CODEC_NAMES.index(name))
    if not colon:
        return target
    if name not in LEVELS:
        raise ValueError(f"{name} has no levels")
    least, largest, _ = LEVELS[name]
    digits = level.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8 and least <= int(level) <= largest):
        raise ValueError(f"{level!r} is no level of {name}: {least} to {largest}")
    return Target(target.codec, int(level))


def compress(target: Target, data: BytesLike) -> bytes:
    """Compresses ``data`` (bytes-like) as a record area. Thread-safe: each thread keeps its compressor of zstd."""
    if target.codec == GZIP:
        deflater = zlib.compressobj(-1 if target.level is None else target.level, wbits=16 + zlib.MAX_WBITS)
        return deflater.compress(data) + deflater.flush()
    if target.codec == SNAPPY:
        import snappy

        pieces = [_XERIAL_HEADER]
        for at in range(0, len(data), _SNAPPY_BLOCK):
            block = bytes(snappy.compress(bytes(data[at : at + _SNAPPY_BLOCK])))
            pieces += [struct.pack(">i", len(block)), block]
        return b"".join(pieces)
    if target.codec == LZ4:
        from lz4 import frame

        level = 0 if target.level in (None, _LZ4_FAST) else target.level
        form = {"block_size": frame.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}
        return bytes(frame.compress(data, compression_level=level, **form))
    if target.codec != ZSTD:
        return bytes(data)
    level = LEVELS["zstd"][2] if target.level is None else target.level
    kept: tuple[int, Any] | None = getattr(_of_thread, "kept", None)
    if kept is None or kept[0] != level:
        import zstandard

        kept = _of_thread.kept = (level, zstandard.ZstdCompressor(level=level, write_content_size=False))
    return bytes(kept[1].compress(data))


# Builds batches. The bytes are those of Kafka's MemoryRecordsBuilder: a batch stores offsets relative to its base
# offset and timestamps relative to its first record's. `kseg.formats.record_batch` and `message_set` document the
# layouts.

NONE = Target(0, None)
"""No compression."""
_OFFSET_SIZE_CRC = struct_of(V0_FIELDS[:3])


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
