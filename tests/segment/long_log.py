"""Builds a long log from one real batch, with new base offsets, timestamps and CRCs, and with indexes."""

import struct
from pathlib import Path

from kseg.segment.files import SegmentFile, segment_file
from segment.segments import TESTDATA, entries, sealed, spans

BASE_OFFSET = 7_000
FIRST_TIMESTAMP = 1_700_000_000_000
STEP_MS = 3_600_000
_SOURCE = TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log"


def batch_at(index: int, template: bytes) -> bytes:
    """Returns the template as batch number ``index``; its newest record is STEP_MS after that of the batch before."""
    count = struct.unpack_from(">i", template, 23)[0] + 1
    base_timestamp, max_timestamp = struct.unpack_from(">qq", template, 27)
    moved = FIRST_TIMESTAMP + index * STEP_MS - max_timestamp
    body = struct.pack(">q", BASE_OFFSET + index * count) + template[8:]
    return sealed(body, 27, struct.pack(">qq", base_timestamp + moved, max_timestamp + moved))


def template() -> bytes:
    """Returns the largest uncompressed batch of the test data."""
    return max((part for part in entries(_SOURCE.read_bytes()) if not part[22] & 7), key=len)


def write_long_log(directory: Path, size: int, by_first_offset: bool = False, with_indexes: bool = True) -> SegmentFile:
    """Writes a segment of at least ``size`` bytes. ``by_first_offset``: index entries as written up to 1.1."""
    part = template()
    count = struct.unpack_from(">i", part, 23)[0] + 1
    path = directory / f"{BASE_OFFSET:020}.log"
    index, times = bytearray(), bytearray()
    with path.open("wb") as file:
        for i in range(-(-size // len(part))):
            file.write(batch_at(i, part))
            if i:
                relative = i * count + (0 if by_first_offset else count - 1)
                index += struct.pack(">ii", relative, i * len(part))
                times += struct.pack(">qi", FIRST_TIMESTAMP + i * STEP_MS, i * count + count - 1)
    if with_indexes:
        path.with_suffix(".index").write_bytes(index + bytes(8000))
        path.with_suffix(".timeindex").write_bytes(times + bytes(12000))
    return segment_file(str(path))


def repeated(batches: bytes, least_bytes: int, path: Path) -> Path:
    """Writes a segment of at least that size: the batches over and over, their base offsets rising."""
    data, next_offset = bytearray(batches), 0
    places = [(at, 1 + int.from_bytes(data[at + 23 : at + 27], "big")) for at, _ in spans(batches)]
    with path.open("wb") as out:
        while out.tell() < least_bytes:
            for at, offsets in places:
                struct.pack_into(">q", data, at, next_offset)
                next_offset += offsets
            out.write(data)
    return path
