"""Record batches made field by field, for what no real file shows."""

import struct

from partitions import sealed


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
