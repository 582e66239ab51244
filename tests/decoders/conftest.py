"""Records of real segments for decoder tests, read by an independent parser that trusts its input."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class RawRecord(NamedTuple):
    offset: int
    is_control: bool
    key: bytes | None
    value: bytes | None


def walk(segment: Path) -> Iterator[RawRecord]:
    """Yields the records of an undamaged segment of uncompressed v2 batches."""
    data, position = segment.read_bytes(), 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        (count,) = struct.unpack_from(">i", data, position + 57)
        assert (data[position + 16], attributes & 7) == (2, 0)
        record = position + 61
        for _ in range(count):
            size, start = _varint(data, record)
            _timestamp_delta, at = _varint(data, start + 1)
            offset_delta, at = _varint(data, at)
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            yield RawRecord(base_offset + offset_delta, bool(attributes & 0x20), key, value)
            record = start + size
        position += 12 + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    return (None, position) if size < 0 else (data[position : position + size], position + size)


@pytest.fixture
def records() -> Callable[[Path], list[RawRecord]]:
    return lambda segment: list(walk(segment))
