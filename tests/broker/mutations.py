"""Seeded mutations of small real segments of every era: what disks do to bytes, and what no disk does.

The second kind has its CRCs made right again, so that a reader meets the odd field and not only the wrong checksum.
"""

import gzip
import random
import struct
from collections.abc import Callable

from fuzz.batches import sealed, varint
from segment.segments import SAMPLES, entries, sample

INT32S = (0, -1, -2, 1, (1 << 31) - 1, -(1 << 31))
INT64S = (*INT32S, 1 << 32, 1 << 62, (1 << 63) - 1, -(1 << 63))
V2_FIELDS = (
    (0, "q"),
    (12, "i"),
    (21, "H"),
    (23, "i"),
    (27, "q"),
    (35, "q"),
    (43, "q"),
    (51, "h"),
    (53, "i"),
    (57, "i"),
)
TEXTS = (b"key", b"", None, b"\xff", b"a\xed\xa0\x80b", b"\xf0\x9f\x98", b"\xc0\x80", b"\r\n\0", "é漢😀".encode())


def mutated(seed: int) -> bytes:
    """A few batches with one change, now and then two."""
    rng = random.Random(seed)
    parts = entries(sample(rng.choice(list(SAMPLES))))
    for _ in range(rng.choice((1, 1, 1, 2))):
        at = rng.randrange(len(parts))
        change = rng.choice(CHANGES)
        parts[at] = change(rng, parts[at])
    kind = rng.randrange(12)
    if kind == 0:
        rng.shuffle(parts)
    elif kind == 1:
        parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    return cut(rng, b"".join(parts)) if kind == 2 else b"".join(parts)


def cut(rng: random.Random, data: bytes) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice((1, 12, 17, 18, 61, 200))
    kind = rng.randrange(3)
    if kind == 0:
        return data[:at]
    return data[:at] + (bytes(size) + data[at:] if kind == 1 else data[at + size :])


def flip(rng: random.Random, entry: bytes) -> bytes:
    data = bytearray(entry)
    data[rng.randrange(rng.choice((26, min(61, len(data)), len(data))))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip_under_crc(rng: random.Random, entry: bytes) -> bytes:
    data = bytearray(entry)
    data[rng.randrange(61 if entry[16] == 2 else 18, len(data))] = rng.randrange(256)
    return sealed(bytes(data))


def set_field(rng: random.Random, entry: bytes) -> bytes:
    data = bytearray(entry)
    if entry[16] == 2:
        at, form = rng.choice(V2_FIELDS)
        values = {"q": INT64S, "i": INT32S, "h": (0, -1, 32767, -32768), "H": tuple(range(128))}[form]
        struct.pack_into(">" + form, data, at, rng.choice(values))
    else:
        at, form = rng.choice(((0, "q"), (17, "B"), (18 + 8 * entry[16], "i")))
        values = {"q": INT64S, "B": tuple(range(256)), "i": (*INT32S, -100, 3, 300)}[form]
        struct.pack_into(">" + form, data, at, rng.choice(values))
    return sealed(bytes(data)) if rng.random() < 0.8 else bytes(data)


def set_length(rng: random.Random, entry: bytes) -> bytes:
    (size,) = struct.unpack_from(">i", entry, 8)
    lengths = (size + 1, size - 1, size + 40, size // 2, 0, -1, 13, 14, 48, 49, (1 << 31) - 1)
    return entry[:8] + struct.pack(">i", rng.choice(lengths)) + entry[12:]


def set_magic(rng: random.Random, entry: bytes) -> bytes:
    return entry[:16] + bytes([rng.choice((0, 1, 2, 3, 127, 128, 255))]) + entry[17:]


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(rng: random.Random, delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """A v2 record; one in three has a field that is odd."""
    headers = [(rng.choice(TEXTS) or b"h", rng.choice(TEXTS)) for _ in range(rng.choice((0, 0, 1, 3)))]
    fields = [b"\0", varint(delta), varint(delta), sized(key), sized(value), varint(len(headers))]
    fields += [sized(name) + sized(text) for name, text in headers]
    if rng.random() < 0.33:
        at = rng.randrange(1, len(fields))
        fields[at] = rng.choice((b"", b"\0", b"\1", b"\x80\0", b"\xff" * 6 + b"\1", varint(-100), varint(1 << 30)))
    body = b"".join(fields)
    return varint(len(body)) + body


def record_batch(rng: random.Random, entry: bytes) -> bytes:
    """A v2 batch of a few records, or of control records, in the place of the entry."""
    is_control = rng.random() < 0.4
    count = rng.choice((0, 1, 1, 2, 4))
    records = b""
    for i in range(count):
        key, value = rng.choice(TEXTS), rng.choice(TEXTS)
        if is_control:
            key = struct.pack(">hh", rng.choice((0, 0, 1, -1)), rng.choice((*range(8), -1)))[: rng.choice((4, 4, 4, 3))]
            value = struct.pack(">hi", rng.choice((0, 1, -1)), rng.choice(INT32S)) + bytes(rng.randrange(12))
        records += record(rng, i, key, value)
    attributes = 32 * is_control + rng.choice((0, 0, 8, 16, 64))
    if rng.random() < 0.3:
        records, attributes = gzip.compress(records, mtime=0), attributes + 1
    claimed = count if rng.random() < 0.8 else rng.choice(INT32S)
    head = struct.pack(">Hiqqqhii", attributes, max(count - 1, 0), 1000, 2000, 7, 0, rng.choice((-1, 0, 5)), claimed)
    return sealed(entry[:8] + bytes(8) + b"\2" + bytes(4) + head + records)


def message(offset: int, magic: int, attributes: int, key: bytes | None, value: bytes | None) -> bytes:
    """A v0 or v1 message."""
    fields = [struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part for part in (key, value)]
    time = struct.pack(">q", 5) if magic else b""
    head = struct.pack(">qiI", offset, 0, 0) + bytes([magic & 255, attributes])
    return sealed(head + time + b"".join(fields))


def compressed_message(rng: random.Random, entry: bytes) -> bytes:
    """A v0 or v1 message with a set of messages inside, some of them odd, in the place of the entry."""
    magic, (offset,) = rng.randrange(2), struct.unpack_from(">q", entry)
    offsets = rng.choice((range(4), (offset - 1, offset), (0, 2, 4), (3, 2, 1), (rng.choice(INT64S),), ()))
    inner = [message(at, magic, 0, rng.choice(TEXTS), rng.choice(TEXTS)) for at in offsets]
    if inner and rng.random() < 0.7:
        at = rng.randrange(len(inner))
        inner[at] = rng.choice((flip, flip_under_crc, set_field, set_magic, set_length))(rng, inner[at])
    value = None if rng.random() < 0.1 else gzip.compress(b"".join(inner) + bytes(rng.choice((0, 0, 5, 30))), mtime=0)
    outer = offset if rng.random() < 0.7 else rng.choice(INT64S)
    return message(outer, magic, rng.choice((1, 1, 1, 9)), None, value)


CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip,
    flip_under_crc,
    set_field,
    set_field,
    set_length,
    set_magic,
    record_batch,
    record_batch,
    compressed_message,
    compressed_message,
)
