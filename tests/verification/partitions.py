"""What the tests of verify share: copies of real partitions, batches made by hand, a report that keeps its findings."""

import shutil
import struct
import zlib
from pathlib import Path

from crc32c import crc32c

from kseg.verification.report import Finding, Report

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
PLAIN = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"


def copied(source: Path, folder: Path) -> Path:
    """A copy of a partition, or of a folder of partitions, below ``folder``."""
    return Path(shutil.copytree(source, folder / source.name))


def spans(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of each batch of an intact .log, by the length fields alone."""
    found, at = [], 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        found.append((at, size))
        at += size
    return found


def sealed(batch: bytes) -> bytes:
    """A v2 batch with the checksum that its bytes want."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def changed(path: Path, position: int, data: bytes) -> None:
    """Writes over bytes of a file."""
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


# Record batches made field by field, for what no real file shows.


def varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def batch_of(offsets: "range | list[int]", epoch: int = 0, value: bytes = b"value", **fields: bytes) -> bytes:
    """A v2 batch of records at these offsets, each with a key and a header of its own; ``fields`` by offset: oN=…"""
    first, last = min(offsets), max(offsets)
    records = b""
    for offset in offsets:
        content = fields.get(f"o{offset}", value)
        body = b"\0" + varint(offset) + varint(offset - first) + varint(2) + struct.pack(">h", offset)
        body += varint(len(content)) + content + varint(1) + varint(1) + b"h" + varint(-1)
        records += varint(len(body)) + body
    head = struct.pack(">hiqqqhii", 0, last - first, 1000, 1000 + last, -1, -1, -1, len(offsets))
    batch = struct.pack(">qiibI", first, len(head) + len(records) + 9, epoch, 2, 0) + head + records
    return sealed(batch)


def plain_record(delta: int, attributes: int = 0) -> bytes:
    """A v2 record of the smallest kind."""
    body = bytes([attributes]) + varint(0) + varint(delta) + varint(1) + b"k" + varint(1) + b"v" + varint(0)
    return varint(len(body)) + body


def of_records(records: list[bytes], last_delta: int, max_timestamp: int = 1000, attributes: int = 0) -> bytes:
    """A v2 batch at offset 0, whatever its records are."""
    head = struct.pack(">hiqqqhii", attributes, last_delta, 1000, max_timestamp, -1, -1, -1, len(records))
    body = head + b"".join(records)
    return sealed(struct.pack(">qiibI", 0, len(body) + 9, 0, 2, 0) + body)


def stored_gzip(data: bytes) -> bytes:
    """A gzip member that no library had a say in, so that it is the same everywhere: one block, not compressed."""
    size = struct.pack("<H", len(data))
    block = b"\1" + size + bytes(byte ^ 0xFF for byte in size) + data
    return b"\x1f\x8b\b" + bytes(6) + b"\xff" + block + struct.pack("<II", zlib.crc32(data), len(data))


def message(offset: int, value: bytes, attributes: int = 0, spoilt: int = 0) -> bytes:
    """A v0 message without key; ``spoilt`` bits of its checksum are wrong."""
    body = struct.pack(">bbii", 0, attributes, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ spoilt) + body


class Found:
    """A report, and its findings in the order they came."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.report = Report(self.findings.append)

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    def places(self) -> list[tuple[str, str, int | None, int | None]]:
        return [(found.code, Path(found.file).name, found.position, found.length) for found in self.findings]
