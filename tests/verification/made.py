"""Record batches made field by field, for what no real file shows."""

import struct
import tarfile
import zlib

from verification.partitions import sealed


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


def tar_of(files: dict[str, bytes], ends: bool = True) -> bytes:
    """A tar file (ustar); ``ends``: with the blocks of zeros that end it."""
    made = b""
    for name, data in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(data)
        made += member.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
    return made + bytes(1024) * ends


def message(offset: int, value: bytes, attributes: int = 0, spoilt: int = 0) -> bytes:
    """A v0 message without key; ``spoilt`` bits of its checksum are wrong."""
    body = struct.pack(">bbii", 0, attributes, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ spoilt) + body
