"""The interpreted twin of native.h: loads and checksums; and the rows that kernel modules hand to each other.

Rows are int64 and lie one after the other in one flat buffer; field F of row i is ``rows[i * WIDTH + F]``.

Frames (what `kseg.kernel.scan.frames` finds in a segment), FRAME_*:

    POSITION   byte position in the file            SIZE    bytes of the whole entry, its length field included
    MAGIC      signed magic byte                    STATE   bits, see kseg.kernel.scan.frames

Records (what `kseg.kernel.records.records` finds in a batch), ROW_*; positions count from the start of the buffer
they lie in:

    OFFSET     absolute offset                      TIMESTAMP     ms since the epoch, -1 none
    SEQUENCE   producer sequence, -1 none           KEY, VALUE    position of the bytes
    KEY_SIZE, VALUE_SIZE   bytes, -1 null           HEADERS       index of the first header row
    HEADER_COUNT                                    CHECK         v0, v1, 0.7: CRC | valid << 32 | timestamp kind << 33
                                                                  (kind 0 none, 1 CreateTime, 2 LogAppendTime); v2: 0

Headers, HEADER_*: KEY, VALUE positions; KEY_SIZE; VALUE_SIZE, -1 null.

Batches (what `kseg.kernel.scan.headers` reads off their headers), BATCH_*; -1 is what a format lacks or a field is
unset to:

    POSITION, SIZE, MAGIC, STATE   as FRAME_*       FIRST_OFFSET   of a compressed v0 or v1 message -1: open it
    LAST_OFFSET                                     ATTRIBUTES     int16 (v2) or int8, unsigned
    LEADER_EPOCH                                    BASE_TIMESTAMP, MAX_TIMESTAMP   ms
    PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE      COUNT          records; of a compressed v0 or v1 message -1
    MARKER     control type of a control batch's    COORDINATOR_EPOCH   of such a marker
               first record, -1 where there is none
"""

from struct import Struct
from zlib import crc32 as _zlib_crc32

# A slice of a file that is not mapped is a copy, and a length that a frame claims must not decide on its size.
SLICE_BYTES = 1 << 20
COPY_BYTES = 1 << 25


def be16(p, i):
    return int.from_bytes(p[i : i + 2], "big", signed=True)


# What `varint` gives for a byte that stands alone, as most of a record's do.
_ONE_BYTE = [((byte >> 1) ^ -(byte & 1)) * 16 + 1 for byte in range(128)]


def varint(p, i, end):
    """The zigzag varint at i as value * 16 + bytes used; 0 where there is none of at most 5 bytes before end."""
    if i < end and p[i] < 128:
        return _ONE_BYTE[p[i]]
    value = used = 0
    while True:
        if used >= 5 or i + used >= end:
            return 0
        byte = p[i + used]
        value |= (byte & 127) << (7 * used)
        used += 1
        if byte < 128:
            break
    value &= 0xFFFFFFFF  # what C drops by itself: bits beyond 32 in the fifth byte
    return ((value >> 1) ^ -(value & 1)) * 16 + used


def be32(p, i):
    return int.from_bytes(p[i : i + 4], "big", signed=True)


def be64(p, i):
    return int.from_bytes(p[i : i + 8], "big", signed=True)


def difference(a, b):
    """a - b modulo 2^64, as Java subtracts longs."""
    return (a - b + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def sum_of(a, b):
    """a + b modulo 2^64, as Java adds longs."""
    return (a + b + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def _zigzag(value):
    return ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF


def varint_bytes(value):
    """How many the zigzag varint (or varlong) of a number takes."""
    return max(_zigzag(value).bit_length() + 6, 7) // 7


def put_varint(out, at, value):
    """Writes that varint; the position behind it."""
    left = _zigzag(value)
    while left > 127:
        out[at] = left & 127 | 128
        at += 1
        left >>= 7
    out[at] = left
    return at + 1


def put_big(out, at, value, size):
    """Writes the low ``size`` bytes of a number, the highest first; the position behind them."""
    out[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
    return at + size


def put_bytes(out, at, p, start, size):
    """Copies bytes, none where the size is negative; the position behind them."""
    if size <= 0:
        return at
    out[at : at + size] = p[start : start + size]
    return at + size


def prefetch(p, i):
    """A hint to the processor; here there is nothing to hint."""


def native_setup():
    """Fills native.h's tables; here there is nothing to fill."""


def indexable(buffer):
    """What is quickest to take bytes and slices of: ``buffer`` itself unless it is a view of at most `COPY_BYTES`."""
    return bytes(buffer) if isinstance(buffer, memoryview) and len(buffer) <= COPY_BYTES else buffer


# Of a v2 batch, from its attributes on; seven calls for one field each take four times as long.
_V2_FIELDS = Struct(">hiqqqhii")


def v2_fields(p, at):
    """The fields of the v2 batch header at p[at] that its records depend on (`kseg.kernel.records.records`)."""
    attributes, last_delta, base_timestamp, max_timestamp, _, _, sequence, count = _V2_FIELDS.unpack(
        p[at + 21 : at + 61]
    )
    return count, be64(p, at), base_timestamp, max_timestamp, attributes >> 3 & 1, sequence, last_delta


_package_crc32c = None


def crc32c(crc, p, start, end):
    """CRC-32C of ``p[start:end]`` after ``crc``, the finalised CRC (0 at first) of what came before."""
    global _package_crc32c
    if _package_crc32c is None:
        from crc32c import crc32c as _package_crc32c  # 45 ms: not before it is needed
    if end - start <= SLICE_BYTES:
        return _package_crc32c(p[start:end], crc) if start < end else crc
    for at in range(start, end, SLICE_BYTES):
        crc = _package_crc32c(p[at : min(at + SLICE_BYTES, end)], crc)
    return crc


def crc32(crc, p, start, end):
    """CRC-32 (zlib's) of ``p[start:end]`` after ``crc``, as `crc32c`."""
    for at in range(start, end, SLICE_BYTES):
        crc = _zlib_crc32(p[at : min(at + SLICE_BYTES, end)], crc)
    return crc


def crc32c_shift(state, n):
    """The CRC register ``state`` (not finalised) after ``n`` more zero bytes, in time that grows with log n."""
    return _shift(_CASTAGNOLI, state, n)


def crc32_shift(state, n):
    return _shift(_IEEE, state, n)


def crc32c_range(before, through, n):
    """CRC-32C of ``n`` bytes, given that of all bytes before them and that of all bytes through their end."""
    return through ^ _shift(_CASTAGNOLI, before, n)


def crc32_range(before, through, n):
    return through ^ _shift(_IEEE, before, n)


# A register is a polynomial over GF(2), bit 31 its x^0; polynomial.h tells more. Entry k is x^(8 * 2^k), and there are
# enough for any 64-bit n.
_CASTAGNOLI, _IEEE = 0x82F63B78, 0xEDB88320
_powers: dict[int, list[int]] = {}


def _shift(polynomial, state, n):
    powers = _powers.get(polynomial)
    if powers is None:
        powers = [1 << 23]
        for _ in range(63):
            powers.append(_multiply(polynomial, powers[-1], powers[-1]))
        _powers[polynomial] = powers
    k = 0
    while n:
        if n & 1:
            state = _multiply(polynomial, state, powers[k])
        n >>= 1
        k += 1
    return state


def _multiply(polynomial, a, b):
    product = 0
    for _ in range(32):
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ polynomial if b & 1 else b >> 1
    return product
