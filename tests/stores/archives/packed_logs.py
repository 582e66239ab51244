"""Logs that are large enough for their batches to be proven while they are unpacked, with damage of several kinds."""

import gzip
import random
import struct
from collections.abc import Callable
from pathlib import Path

import zstandard

from segment.long_log import BASE_OFFSET, batch_at, template, write_long_log

SIZE = 700_000
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def cut(data: bytes) -> bytes:
    return data[:-100]


def zeros_behind(data: bytes) -> bytes:
    return data + bytes(5000)


def flipped(data: bytes) -> bytes:
    """Breaks a checksum in the middle, and a length behind it."""
    hurt = bytearray(data)
    hurt[len(data) // 2] ^= 1
    hurt[data.index(batch_at(40, template())) + 8] ^= 0x40
    return bytes(hurt)


def nonsense_first(data: bytes) -> bytes:
    return random.Random(1).randbytes(300) + data


def zeros_inside(data: bytes) -> bytes:
    at = len(data) * 2 // 3
    return data[:at] + bytes(70_000) + data[at + 70_000 :]


DAMAGES = [bytes, cut, zeros_behind, flipped, nonsense_first, zeros_inside]


def partition(folder: Path, damage: Callable[[bytes], bytes]) -> Path:
    """A partition of two segments, with its indexes; the first is damaged."""
    directory = folder / "logs/orders-0"
    directory.mkdir(parents=True)
    first = Path(write_long_log(directory, SIZE).path)
    data = first.read_bytes()
    count = len(data) // len(template())
    first.write_bytes(damage(data))
    records = struct.unpack_from(">i", template(), 23)[0] + 1
    later = b"".join(batch_at(count + i, template()) for i in range(count))
    (directory / f"{BASE_OFFSET + count * records:020}.log").write_bytes(later)
    return directory
