"""The tables of int64 that kernel modules share, and the interpreted twin of native.h: integers and checksums.

A table is one flat buffer. Column C of row i is ``rows[i * WIDTH + C]``.

Frames, as `kseg.kernel.scan.frames` finds them in a segment, FRAME_*:

    POSITION   byte position in the file            SIZE    bytes of the whole entry, its length field included
    MAGIC      signed magic byte                    STATE   bits CRC_RIGHT, RECORDS_RIGHT, NULL_KEYS

Records, as `kseg.kernel.records.records` reads them from a batch, ROW_*. Positions count from the start of the buffer
that holds the batch:

    OFFSET     absolute offset                      TIMESTAMP     ms since the epoch, -1 none
    SEQUENCE   producer sequence, -1 none           KEY, VALUE    position of the bytes
    KEY_SIZE, VALUE_SIZE   bytes, -1 null           HEADERS       index of the first header row
    HEADER_COUNT                                    CHECK         v0, v1, 0.7: CRC | valid << 32 | timestamp type << 33
                                                                  (0 none, 1 CreateTime, 2 LogAppendTime); v2: 0

Headers, HEADER_*: KEY, VALUE positions; KEY_SIZE; VALUE_SIZE, -1 null.

Batches, as `kseg.kernel.scan.headers` reads their headers, BATCH_*. A field that is unset, or that the format lacks, is
-1:

    POSITION, SIZE, MAGIC, STATE   as FRAME_*       FIRST_OFFSET   -1 for a compressed v0 or v1 message
    LAST_OFFSET                                     ATTRIBUTES     int16 (v2) or int8, unsigned
    LEADER_EPOCH                                    BASE_TIMESTAMP, MAX_TIMESTAMP   ms
    PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE      COUNT          records; -1 for a compressed v0 or v1 message
    MARKER     control type of a control batch's    COORDINATOR_EPOCH   of such a marker
               first record, -1 where there is none
"""

from functools import cache
from zlib import crc32 as _zlib_crc32

import cython
from cython import Py_ssize_t, bint, longlong, void

# Types of buffers, and pointers to them for C. Interpreted, each function returns the buffer itself, which is indexed.

BytesIn = BytesOut = Int64sIn = Int64sOut = Int32sOut = memoryview
Bytes = OutBytes = Columns = OutColumns = memoryview

# The columns of the tables. kseg._build declares these constants for C.
FRAME_POSITION, FRAME_SIZE, FRAME_MAGIC, FRAME_STATE, FRAME_WIDTH = range(5)
(
    ROW_OFFSET, ROW_TIMESTAMP, ROW_SEQUENCE, ROW_KEY, ROW_KEY_SIZE, ROW_VALUE, ROW_VALUE_SIZE, ROW_HEADERS,
    ROW_HEADER_COUNT, ROW_CHECK, ROW_WIDTH,
) = range(11)  # fmt: skip
HEADER_KEY, HEADER_KEY_SIZE, HEADER_VALUE, HEADER_VALUE_SIZE, HEADER_WIDTH = range(5)
(
    BATCH_POSITION, BATCH_SIZE, BATCH_MAGIC, BATCH_STATE, BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_ATTRIBUTES,
    BATCH_LEADER_EPOCH, BATCH_BASE_TIMESTAMP, BATCH_MAX_TIMESTAMP, BATCH_PRODUCER_ID, BATCH_PRODUCER_EPOCH,
    BATCH_BASE_SEQUENCE, BATCH_COUNT, BATCH_MARKER, BATCH_COORDINATOR_EPOCH, BATCH_WIDTH,
) = range(17)  # fmt: skip

# Bits of FRAME_STATE and BATCH_STATE. RECORDS_RIGHT is set only by a walk over the records: none has a problem. A
# frame without it must be opened to know. NULL_KEYS is set with it: a record has no key.
CRC_RIGHT, RECORDS_RIGHT, NULL_KEYS = 1, 2, 4

# Parts of ROW_CHECK: the bit that the CRC is right, and the timestamp type.
CHECK_VALID_SHIFT, CHECK_KIND_SHIFT, CHECK_KIND_BITS = 32, 33, 3

# Statuses, the results of all loops. DONE: up to the end. FULL: use the output and call again. NOT_PLAIN: the caller
# must process the next frame. IRREGULAR: no intact frame begins at the position. NEEDS_BUFFER: extend the expansion
# buffer. MORE_ROWS: too few rows for a batch. MORE_HEADERS: too few header rows for one record. TOO_SMALL: the empty
# output is too small. NEEDS_DECODING: the caller must finish the line of a record. NEEDS_PACKING: the caller must
# compress a batch. COMPRESSED: the entry is a wrapper, to be opened and skipped by the caller. CUT: the end truncates
# the entry. OFFSET_OUTSIDE, OFFSET_FALLS: an index cannot have the batch. The others say why an entry or a record is
# malformed: keys of the REASONS of `kseg.kernel.records.records` and `messages`, as is MORE_HEADERS.
(
    DONE, FULL, NOT_PLAIN, IRREGULAR, NEEDS_BUFFER, MORE_ROWS, MORE_HEADERS, TOO_SMALL, NEEDS_DECODING, NEEDS_PACKING,
    COMPRESSED, CUT, OFFSET_OUTSIDE, OFFSET_FALLS, TOO_SHORT, MISFIT, UNKNOWN_MAGIC, BAD_LENGTH, TOO_LONG,
    BAD_TIMESTAMP, BAD_OFFSET, BAD_KEY, BAD_VALUE, BAD_HEADER_COUNT, BAD_HEADER_KEY, BAD_HEADER_VALUE,
    TOO_SHORT_FIELDS, BYTES_LEFT, NEGATIVE_COUNT,
) = range(29)  # fmt: skip
# Negative results in place of a position or a size. OUTPUT_FULL: the output has passed its limit. NOT_UTF8,
# UNREADABLE: the bytes cannot be printed. NO_SUCH_BYTES: a row points outside the payload. Of decompression, REFUSED:
# the area is malformed, or only the Python libraries support its form; BUFFER_FULL: the output is too small, or the
# library or its context is missing.
OUTPUT_FULL, NOT_UTF8, UNREADABLE, NO_SUCH_BYTES, REFUSED, BUFFER_FULL = range(-1, -7, -1)

# Parts of a result r of `varint`: r >> VARINT_VALUE_SHIFT is the value, r & VARINT_LENGTH_MASK the size.
VARINT_VALUE_SHIFT, VARINT_LENGTH_MASK = 4, 15
INT32_MAX = 0x7FFFFFFF


def check_length(length, least):
    if length < least:
        raise ValueError("a buffer is too short")


def bytes_in(buffer, least=0):
    check_length(len(buffer), least)
    return buffer


bytes_out = int64s_in = int64s_out = int32s_out = uint32s_out = bytes_in


INT64_MAX = (1 << 63) - 1

# A slice of an unmapped file is a copy. The length that a frame claims must not determine its size.
SLICE_BYTES = 1 << 20
COPY_BYTES = 1 << 25


def be16(p: Bytes, i: Py_ssize_t) -> cython.int:
    return int.from_bytes(p[i : i + 2], "big", signed=True)


# Results of `varint` for single bytes, as most varints of a record are.
_ONE_BYTE = [(((byte >> 1) ^ -(byte & 1)) << VARINT_VALUE_SHIFT) + 1 for byte in range(128)]


def varint(p: Bytes, i: Py_ssize_t, end: Py_ssize_t) -> longlong:
    """Returns the value and the length of the zigzag varint at i: value << VARINT_VALUE_SHIFT | length.

    0 if it does not end within 5 bytes or before end.
    """
    if i < end and p[i] < 128:
        return _ONE_BYTE[p[i]]
    value = 0
    for k in range(min(end - i, 5)):
        value |= (p[i + k] & 127) << (7 * k)
        if p[i + k] < 128:
            value &= 0xFFFFFFFF  # C drops bits beyond 32 in the fifth byte
            return (((value >> 1) ^ -(value & 1)) << VARINT_VALUE_SHIFT) + k + 1
    return 0


def be32(p: Bytes, i: Py_ssize_t) -> longlong:
    return int.from_bytes(p[i : i + 4], "big", signed=True)


def stored_crc(p: Bytes, i: Py_ssize_t) -> longlong:
    return int.from_bytes(p[i : i + 4], "big")


def be64(p: Bytes, i: Py_ssize_t) -> longlong:
    return int.from_bytes(p[i : i + 8], "big", signed=True)


def difference(a: longlong, b: longlong) -> longlong:
    """a - b modulo 2^64, as Java subtracts longs."""
    return (a - b + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def sum_of(a: longlong, b: longlong) -> longlong:
    """a + b modulo 2^64, as Java adds longs."""
    return (a + b + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def _zigzag(value):
    return ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF


def varint_bytes(value: longlong) -> longlong:
    """Returns the length of a number as a zigzag varint or varlong."""
    return max(_zigzag(value).bit_length() + 6, 7) // 7


def put_varint(out: OutBytes, at: Py_ssize_t, value: longlong) -> Py_ssize_t:
    """Writes a number as a zigzag varint. Returns the position behind it."""
    left = _zigzag(value)
    while left > 127:
        out[at] = left & 127 | 128
        at += 1
        left >>= 7
    out[at] = left
    return at + 1


def put_big(out: OutBytes, at: Py_ssize_t, value: longlong, size: cython.int) -> Py_ssize_t:
    """Writes the low ``size`` bytes of a number, big-endian. Returns the position behind them."""
    out[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
    return at + size


def put_bytes(out: OutBytes, at: Py_ssize_t, p: Bytes, start: longlong, size: longlong) -> Py_ssize_t:
    """Copies bytes, none if the size is negative. Returns the position behind them."""
    if size <= 0:
        return at
    out[at : at + size] = p[start : start + size]
    return at + size


def are_same_bytes(p: Bytes, at: longlong, size: longlong, q: Bytes, other_at: longlong, other_size: longlong) -> bint:
    return size == other_size and (size <= 0 or p[at : at + size] == q[other_at : other_at + size])


def prefetch(p: Columns, i: longlong) -> void:
    """A hint to the processor in C; without effect here."""


def native_setup() -> void:
    """Fills the tables of native.h; each module that computes checksums calls it when it is imported."""


def indexable(buffer):
    """Returns a copy of a memoryview of at most `COPY_BYTES`, which is faster to index and slice; else the buffer."""
    return bytes(buffer) if isinstance(buffer, memoryview) and len(buffer) <= COPY_BYTES else buffer


_package_crc32c = None


def crc32c(crc: cython.uint, p: Bytes, start: Py_ssize_t, end: Py_ssize_t) -> cython.uint:
    """Returns the CRC-32C of ``p[start:end]`` after ``crc``, the finalised CRC of the preceding bytes, initially 0."""
    global _package_crc32c
    if _package_crc32c is None:
        from crc32c import crc32c as _package_crc32c  # 45 ms: not before it is needed
    if end - start <= SLICE_BYTES:
        return _package_crc32c(p[start:end], crc) if start < end else crc
    for at in range(start, end, SLICE_BYTES):
        crc = _package_crc32c(p[at : min(at + SLICE_BYTES, end)], crc)
    return crc


def crc32(crc: cython.uint, p: Bytes, start: Py_ssize_t, end: Py_ssize_t) -> cython.uint:
    """Returns the CRC-32 of zlib of ``p[start:end]`` after ``crc``; see `crc32c`."""
    for at in range(start, end, SLICE_BYTES):
        crc = _zlib_crc32(p[at : min(at + SLICE_BYTES, end)], crc)
    return crc


# The only implementation here: packages.
path_count = 1


def path_name(path):
    return b"packages"


def use_path(path: cython.int) -> void:
    """Chooses another implementation; without effect here."""


def crc32c_range(before: cython.uint, through: cython.uint, n: cython.uint) -> cython.uint:
    """Returns the CRC-32C of ``n`` bytes from the CRCs of all bytes before them and of all bytes to their end."""
    return through ^ _shift(_CASTAGNOLI, before, n)


def crc32_range(before: cython.uint, through: cython.uint, n: cython.uint) -> cython.uint:
    return through ^ _shift(_IEEE, before, n)


# A register is a polynomial over GF(2), bit 31 its x^0; see polynomial.h.
_CASTAGNOLI, _IEEE = 0x82F63B78, 0xEDB88320


@cache
def _power(polynomial, k):
    """Returns x^(8 * 2^k)."""
    if k == 0:
        return 1 << 23
    half = _power(polynomial, k - 1)
    return _multiply(polynomial, half, half)


def _shift(polynomial, state, n):
    for k in range(n.bit_length()):
        if n >> k & 1:
            state = _multiply(polynomial, state, _power(polynomial, k))
    return state


def _multiply(polynomial, a, b):
    product = 0
    for _ in range(32):
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ polynomial if b & 1 else b >> 1
    return product
