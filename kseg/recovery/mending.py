"""Header fields that lie outside the checksum of a v2 batch, made right where what is right can be proven.

Base offset, length, leader epoch and magic (21 bytes) can be damaged while every record is intact under its checksum.
"""

from typing import Any

from kseg.kernel.checksum import crc32, crc32c
from kseg.kernel.native import be32
from kseg.segment.items import Damage
from kseg.segment.source import Source

_HEADER_BYTES = 61
_MAGIC_AT, _CRC_AT, _COVERED_FROM = 16, 17, 21


def _bytes_of(source: Source, position: int, size: int) -> Any:
    """A view of a range, or a copy where the file is not mapped."""
    buffer: Any = source.buffer
    return buffer[position : position + size]


def with_right_length(source: Source, damage: Damage) -> bytes | None:
    """The first 12 bytes of the batch that a damaged range is, whole, but for its length field; None if it is none."""
    data = _bytes_of(source, damage.position, damage.length)
    if damage.code != "bad-length" or damage.length < 26:
        return None
    magic = data[_MAGIC_AT]
    if magic == 2 and damage.length > _HEADER_BYTES:
        is_right = crc32c(data[_COVERED_FROM:]) == be32(bytes(data[_CRC_AT:_COVERED_FROM]), 0) & 0xFFFFFFFF
    elif magic < 2:
        is_right = crc32(data[16:]) == be32(bytes(data[12:16]), 0) & 0xFFFFFFFF
    else:
        return None
    return bytes(data[:8]) + (damage.length - 12).to_bytes(4, "big") if is_right else None


def with_right_magic(source: Source, position: int, size: int) -> bytes | None:
    """The first 17 bytes of a batch that is one of v2 but for its magic; None if it is none."""
    data = _bytes_of(source, position, size)
    if size <= _HEADER_BYTES or data[_MAGIC_AT] == 2:
        return None
    if crc32c(data[_COVERED_FROM:]) != be32(bytes(data[_CRC_AT:_COVERED_FROM]), 0) & 0xFFFFFFFF:
        return None
    return bytes(data[:_MAGIC_AT]) + b"\2"
