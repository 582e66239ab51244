"""Small real segments for damage tests: the first batches of files written by brokers, split by their length fields."""

import struct
from functools import cache
from pathlib import Path
from zlib import crc32

from crc32c import crc32c

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"

LOGS = [path for path in sorted(TESTDATA.glob("kafka-*/*/*/*.log")) if path.stat().st_size]
"""Segments that brokers and clients wrote."""


def name_of(path: Path) -> str:
    """Returns the id of a test of a segment."""
    return "/".join((*path.parts[-4:-1], path.stem[-6:]))


SAMPLES = {
    "v2": "kafka-0.11.0.3/txn/compact-txn-0/00000000000000001187.log",
    "v2-control": "kafka-4.3.1/internal/__cluster_metadata-0/00000000000000000164.log",
    "v1-snappy": "kafka-0.10.2.2/codecs/compact-lat-snappy-0/00000000000000001884.log",
    "v0": "kafka-0.8.2.2/codecs/compact-0/00000000000000000351.log",
    "v0-gzip": "kafka-0.8.2.2/codecs/one-gzip-0/00000000000000000000.log",
    "v0-v1-v2": "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log",
}


def spans(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of each batch or message of an intact .log, by the length fields alone. AssertionError where
    something else is there."""
    found, at = [], 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        assert 26 <= size <= len(data) - at, f"no batch at {at}"
        found.append((at, size))
        at += size
    return found


def entries(data: bytes) -> list[bytes]:
    """The batches or messages of an intact .log."""
    return [data[at : at + size] for at, size in spans(data)]


def sealed(entry: bytes, at: int = 0, new: bytes = b"") -> bytes:
    """A batch or message with other bytes at a position, and the checksum that it then has."""
    made = bytearray(entry)
    made[at : at + len(new)] = new
    start, checksum = (21, crc32c) if made[16] == 2 else (16, crc32)
    made[start - 4 : start] = checksum(bytes(made[start:])).to_bytes(4, "big")
    return bytes(made)


@cache
def sample(name: str, count: int = 3) -> bytes:
    """Returns the first ``count`` entries of a sample; of the mixed one, the first of each format."""
    found = entries((TESTDATA / SAMPLES[name]).read_bytes())
    if name == "v0-v1-v2":
        found = [next(part for part in found if part[16] == magic) for magic in (0, 1, 2)]
    assert len(found) >= count
    return b"".join(found[:count])
