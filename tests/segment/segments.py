"""Small real segments for damage tests: the first batches of files written by brokers, split by their length fields."""

import struct
from functools import cache
from pathlib import Path

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


def entries(data: bytes) -> list[bytes]:
    """Returns the batches or messages of an intact .log, by their length fields alone."""
    found = []
    at = 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        found.append(data[at : at + size])
        at += size
    return found


@cache
def sample(name: str, count: int = 3) -> bytes:
    """Returns the first ``count`` entries of a sample; of the mixed one, the first of each format."""
    found = entries((TESTDATA / SAMPLES[name]).read_bytes())
    if name == "v0-v1-v2":
        found = [next(part for part in found if part[16] == magic) for magic in (0, 1, 2)]
    assert len(found) >= count
    return b"".join(found[:count])
