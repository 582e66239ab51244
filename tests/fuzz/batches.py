"""Real batches, and the same with wrong insides under right lengths and checksums.

A batch is taken apart as far as it is compressed, changed in its fields, records or compressed bytes, and put together
again. Nothing of kseg is used for it. Layouts: KIP-98, KIP-32, and kafka.message.Message of 0.7.
"""

import gzip
import random
import struct
import zlib
from functools import cache

import lz4.frame
import snappy
import zstandard

from kernel.rendering import varint
from segment import segments

TESTDATA = segments.TESTDATA
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LARGEST_BYTES = 6000
PER_KIND = 60
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
ODD_NUMBERS = (0, 1, -1, 2, 63, 64, -64, 127, 128, 255, 65535, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
V2_FIELDS = {
    0: "q", 12: "i", 21: "h", 23: "i", 27: "q", 35: "q", 43: "q", 51: "h", 53: "i", 57: "i",
}  # fmt: skip
"""Position and form of the fields of a v2 header, but for length, magic and checksum."""


# Real batches --------------------------------------------------------------------------------------------------------


@cache
def real_batches() -> dict[tuple[int, int], list[bytes]]:
    """Small batches by (magic, codec); 0.7's have magic -7."""
    found: dict[tuple[int, int], list[bytes]] = {}
    for path in segments.LOGS + sorted(TESTDATA.glob("compression/**/*.log")):
        data, at = path.read_bytes(), 0
        while at + 26 <= len(data):
            size = 12 + struct.unpack_from(">i", data, at + 8)[0]
            if not 26 <= size <= len(data) - at or data[at + 16] > 2:
                break
            batch = data[at : at + size]
            if size <= LARGEST_BYTES and sealed(batch) == batch:
                found.setdefault((batch[16], attributes_of(batch) & 7), []).append(batch)
            at += size
    for path in sorted(TESTDATA.glob("kafka-0.7.2/**/*.kafka")):
        data, at = path.read_bytes(), 0
        while at + 10 <= len(data):
            size = 4 + struct.unpack_from(">i", data, at)[0]
            if not 10 <= size <= len(data) - at:
                break
            if size <= LARGEST_BYTES and data[at + 4] == 1:
                found.setdefault((-7, data[at + 5] & 3), []).append(data[at : at + size])
            at += size
    chance = random.Random(0)
    return {kind: chance.sample(some, min(len(some), PER_KIND)) for kind, some in sorted(found.items())}


def attributes_of(batch: bytes) -> int:
    return batch[22] if batch[16] == 2 else batch[17]


def sealed(batch: bytes) -> bytes:
    """The batch with the length and checksum that it should have."""
    return segments.sealed(batch, 8, struct.pack(">i", len(batch) - 12))


def sealed_07(codec: int, payload: bytes) -> bytes:
    return struct.pack(">ibBI", 6 + len(payload), 1, codec, zlib.crc32(payload)) + payload


# Codecs --------------------------------------------------------------------------------------------------------------


def packed(codec: int, data: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(data, 1, mtime=0)
    if codec == SNAPPY:
        block = snappy.compress(data)
        return XERIAL + struct.pack(">i", len(block)) + block
    if codec == LZ4:
        return lz4.frame.compress(data, block_linked=False, store_size=False)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=1).compress(data)
    return data


def unpacked(codec: int, data: bytes) -> bytes | None:
    """None where the stream is one that this does not read."""
    try:
        if codec == GZIP:
            return gzip.decompress(data)
        if codec == SNAPPY and data.startswith(XERIAL[:8]):
            (size,) = struct.unpack_from(">i", data, 16)
            return bytes(snappy.uncompress(data[20:])) if size == len(data) - 20 else None
        if codec == SNAPPY:
            return bytes(snappy.uncompress(data))
        if codec == LZ4:
            return lz4.frame.decompress(data)
        return zstandard.ZstdDecompressor().decompressobj().decompress(data) if codec == ZSTD else data
    except (OSError, EOFError, RuntimeError, snappy.UncompressError, zstandard.ZstdError, zlib.error, struct.error):
        return None


# Changes -------------------------------------------------------------------------------------------------------------


def twist(data: bytes, chance: random.Random) -> bytes:
    """One change to bytes of any kind."""
    made = bytearray(data)
    at = chance.randrange(len(made) + 1)
    near = chance.randrange(min(len(made), 30) + 1)
    kind = chance.randrange(9)
    if kind == 0:
        made[at : at + 1] = bytes([chance.choice((0, 1, 127, 128, 254, 255, chance.randrange(256)))])
    elif kind == 1:
        made[near : near + 1] = varint(chance.choice(ODD_NUMBERS))
    elif kind == 2:
        number = varint(chance.choice(ODD_NUMBERS))
        made[at : at + len(number)] = number
    elif kind == 3:
        made[at : at + 4] = struct.pack(">i", chance.choice((0, 1, -1, 2, 14, 2**31 - 1, -(2**31), len(made))))
    elif kind == 4:
        made[at : at + 8] = struct.pack(">q", chance.choice((0, -1, 2**63 - 1, -(2**63), 2**31)))
    elif kind == 5:
        del made[at : at + chance.choice((1, 2, 7, 1000))]
    elif kind == 6:
        made[at:at] = chance.randbytes(chance.choice((1, 2, 5, 12, 30)))
    elif kind == 7:
        made += chance.choice((bytes(chance.randrange(1, 40)), made[: chance.randrange(60)], chance.randbytes(9)))
    elif near < len(made):
        made[near] ^= 1 << chance.randrange(8)
    return bytes(made)


def twisted(batch: bytes, chance: random.Random) -> bytes:
    """A batch of 0.8 or later with one to three changes, its length and checksum made right."""
    head = 61 if batch[16] == 2 else 26 if batch[16] else 18
    made = bytearray(batch[:head])
    body = batch[head:]
    codec = attributes_of(batch) & 7
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.25:
            _twist_header(made, chance)
        else:
            twist_area = _twist_area if made[16] == 2 else _twist_set
            body = twist_area(codec, body, chance)
    return sealed(bytes(made) + body)


def _twist_header(head: bytearray, chance: random.Random) -> None:
    if head[16] != 2:
        if chance.random() < 0.5:
            head[17] ^= 1 << chance.randrange(8)
        else:
            struct.pack_into(">q", head, chance.choice((0, len(head) - 8)), chance.choice(ODD_NUMBERS[:-6]))
        return
    at, form = chance.choice(list(V2_FIELDS.items()))
    bits = 8 * struct.calcsize(form)
    (value,) = struct.unpack_from(">" + form, head, at)
    value = chance.choice((value + 1, value - 1, value ^ 1 << chance.randrange(bits), *ODD_NUMBERS))
    struct.pack_into(">" + form, head, at, (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))


def _twist_area(codec: int, area: bytes, chance: random.Random) -> bytes:
    """The records of a v2 batch, or the bytes that they are compressed to."""
    plain = unpacked(codec, area) if chance.random() < 0.7 else None
    if plain is None:
        return twist(area, chance)
    return packed(codec, twist(plain, chance))


def _twist_set(codec: int, body: bytes, chance: random.Random) -> bytes:
    """Key and value of a message; of a compressed one the set inside."""
    key_bytes = 4 + max(struct.unpack_from(">i", body)[0], 0) if len(body) >= 8 else 0
    value = body[key_bytes + 4 :]
    inner = unpacked(codec, value) if codec and chance.random() < 0.8 else None
    if inner is None:
        return twist(body, chance)
    kind = chance.randrange(4)
    if kind == 0:
        inner = twist(inner, chance)
    elif kind == 1:
        inner = nested(inner, chance)
    else:
        inner = _twist_message(inner, chance)
    value = packed(codec, inner)
    return body[:key_bytes] + struct.pack(">i", len(value)) + value


def _twist_message(inner: bytes, chance: random.Random) -> bytes:
    """One message of a set with a change, its checksum mostly made right, its size mostly not."""
    places, at = [], 0
    while at + 26 <= len(inner):
        size = 12 + struct.unpack_from(">i", inner, at + 8)[0]
        if not 26 <= size <= len(inner) - at:
            break
        places.append((at, size))
        at += size
    if not places:
        return twist(inner, chance)
    at, size = chance.choice(places)
    message = twist(inner[at : at + size], chance)
    if chance.random() < 0.8 and len(message) > 16:
        message = message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]
    return inner[:at] + message + inner[at + size :]


def nested(inner: bytes, chance: random.Random) -> bytes:
    """A set whose only message is compressed, some times over."""
    for _ in range(chance.choice((1, 2, 3, 20))):
        codec, magic = chance.choice((GZIP, SNAPPY)), inner[16] & 1 if len(inner) > 16 else 0
        value = packed(codec, inner)
        fields = bytes([magic, codec]) + (struct.pack(">q", 1) if magic else b"")
        inner = sealed(struct.pack(">qiI", 0, 0, 0) + fields + struct.pack(">ii", -1, len(value)) + value)
    return inner


def twisted_07(entry: bytes, chance: random.Random) -> bytes:
    """An entry of 0.7 with a change to its payload, or to what that holds; its size and checksum are right."""
    codec, payload = entry[5], entry[10:]
    inner = unpacked(codec & 3, payload) if codec & 3 and chance.random() < 0.8 else None
    if chance.random() < 0.2:
        codec = chance.choice((0, 1, 2, 3, 255))
    if inner is None:
        return sealed_07(codec, twist(payload, chance))
    if chance.random() < 0.3:
        for _ in range(chance.choice((1, 3, 20))):
            inner = sealed_07(GZIP, packed(GZIP, inner))
        return sealed_07(GZIP, packed(GZIP, inner))
    return sealed_07(codec, packed(codec & 3, twist(inner, chance)))


def out_of_place(data: bytes, chance: random.Random) -> bytes:
    """Damage to a whole file, with no checksum made right."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + bytes(chance.choice((1, 61, 512, 4096))) + data[at:]
        elif kind == 2:
            stop = min(at + chance.randrange(2000), len(data))
            data = data[:at] + data[at:stop] + data[at:]
        else:
            data = twist(data, chance)
    return data


def mutated(seed: int) -> bytes:
    """A few real batches of 0.8 or later: one or two of them twisted, or the whole damaged."""
    chance, known = random.Random(seed), real_batches()
    kinds = [kind for kind in known if kind[0] >= 0]
    parts = [chance.choice(known[chance.choice(kinds)]) for _ in range(3)]
    if chance.random() < 0.3:
        return out_of_place(b"".join(parts), chance)
    for at in chance.sample(range(3), chance.choice((1, 1, 2))):
        parts[at] = twisted(parts[at], chance)
    return b"".join(parts)
