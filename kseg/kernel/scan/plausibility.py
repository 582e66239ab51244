"""Plausibility of bytes without a valid checksum: whether a header continues the preceding batch, and runs of zeros.

The header is at ``p[i]``; no byte at ``end`` or behind is read. ``v07``: a file of 0.7, whose messages begin with their
length.
"""

import cython
from cython.cimports.kseg.kernel.native.search import zeros_ahead, zeros_in_runs

# Of a v0 message: its header, and the sizes of key and value.
MIN_BYTES = cython.declare(cython.Py_ssize_t, V0_HEADER_BYTES + SIZES_BYTES)
INT62_MAX = cython.declare(cython.longlong, 0x3FFFFFFFFFFFFFFF)
# Bits of attributes that no release sets.
UNUSED_FLAG = cython.declare(cython.int, 0x80)
UNUSED_V0 = cython.declare(cython.int, 0xF8)
UNUSED_V1 = cython.declare(cython.int, 0xF0)
KEY_SIZE_BYTES = cython.declare(cython.Py_ssize_t, 4)
SNAPPY_START = cython.declare(cython.longlong, -0x7DACB1BEAFAFA700)
LZ4_START = cython.declare(cython.longlong, 0x04224D18)


def claimed_bytes(p, i, end, v07, largest):
    """Returns the size of the entry at i of any magic; 0 unless its length fits a header, ``largest`` and the end."""
    if v07:
        if end - i < V07_MIN_BYTES:
            return 0
        size = be32(p, i)
        least = V07_MIN_BYTES - V07_SIZE_BYTES + (1 if p[i + V07_MAGIC] else 0)
        return size + V07_SIZE_BYTES if least <= size <= largest and size <= end - i - V07_SIZE_BYTES else 0
    if end - i <= SHORT_TAIL_BYTES:
        return 0
    size = be32(p, i + ENTRY_SIZE)
    magic = p[i + ENTRY_MAGIC]
    if MAGIC_V2 <= magic < 128:
        least = V2_HEADER_BYTES - ENTRY_OVERHEAD
    else:
        least = MIN_BYTES - ENTRY_OVERHEAD + (0 if magic == 0 else V1_TIMESTAMP_BYTES)
    return size + ENTRY_OVERHEAD if least <= size <= largest and size <= end - i - ENTRY_OVERHEAD else 0


def offset_goes_on(offset, last_offset):
    return offset >= 0 and (last_offset < 0 or 0 < offset - last_offset <= INT32_MAX)


def goes_on(p, i, end, last_offset):
    """`continues` for the bytes [i, end), of which at most 61 are read."""
    if end - i < MIN_BYTES or p[i + ENTRY_MAGIC] > MAGIC_V2 or not offset_goes_on(be64(p, i), last_offset):
        return False
    size = be32(p, i + ENTRY_SIZE) + ENTRY_OVERHEAD
    if p[i + ENTRY_MAGIC] < MAGIC_V2:
        return message_sizes_fit(p, i, end if end - i < V2_HEADER_BYTES else i + V2_HEADER_BYTES, size)
    if size < V2_HEADER_BYTES or end - i < V2_HEADER_BYTES or p[i + V2_ATTRIBUTES] or p[i + V2_FLAGS] & UNUSED_FLAG:
        return False
    if (p[i + V2_FLAGS] & CODEC) > HIGHEST_CODEC:
        return False
    last_delta = be32(p, i + V2_LAST_OFFSET_DELTA)
    count = be32(p, i + V2_COUNT)
    return (
        0 <= count <= last_delta + 1
        and (p[i + V2_FLAGS] & CODEC or count * MIN_RECORD_BYTES <= size - V2_HEADER_BYTES)
        and be32(p, i + V2_LEADER_EPOCH) >= -1
        and be64(p, i + V2_PRODUCER_ID) >= -1
        and be16(p, i + V2_PRODUCER_EPOCH) >= -1
        and be32(p, i + V2_BASE_SEQUENCE) >= -1
    )


def message_sizes_fit(p, i, end, size):
    """Whether key and value fill the ``size`` bytes of the v0 or v1 entry exactly, judged by the bytes before end."""
    magic: cython.int = p[i + ENTRY_MAGIC]
    attributes: cython.int = p[i + LEGACY_FLAGS]
    at: cython.Py_ssize_t = i + V0_HEADER_BYTES + V1_TIMESTAMP_BYTES * magic
    least: cython.longlong = at - i + SIZES_BYTES
    if attributes & (UNUSED_V1 if magic else UNUSED_V0) or attributes & CODEC > LZ4 or size < least:
        return False
    if end < at + KEY_SIZE_BYTES:
        return False
    key_size = be32(p, at)
    if key_size < -1:
        return False
    if key_size < 0:
        key_size = 0
    if key_size > size - least:
        return False
    if key_size > end - at - SIZES_BYTES:
        return True
    value_size = be32(p, at + KEY_SIZE_BYTES + key_size)
    if value_size < -1:
        return False
    return size == least + key_size + (value_size if value_size > 0 else 0)


def last_offset_at(p, i, end):
    """Returns the last offset of the header at i, unchecked; the largest int64 if the sum overflows."""
    last: cython.longlong = be64(p, i)
    if MAGIC_V2 <= p[i + ENTRY_MAGIC] < 128 and end - i >= V2_BASE_TIMESTAMP:
        delta = be32(p, i + V2_LAST_OFFSET_DELTA)
        if delta > 0:
            return last + delta if last <= INT64_MAX - delta else INT64_MAX
        if last >= 0:
            return last + delta
    return last


def last_offset_claimed(p, i, end):
    """Returns the last offset of the header at i, -1 if it is no valid offset."""
    last: cython.longlong = last_offset_at(p, i, end)
    return last if 0 <= last <= INT62_MAX else -1


def compressed_end(p, i, end, last_offset):
    """Returns the end of the compressed v0 or v1 message at i, computed from its key and value sizes.

    Returns i if there is no such message, or if it does not continue ``last_offset`` (-1: unknown).
    """
    if end - i < MIN_BYTES or p[i + ENTRY_MAGIC] >= MAGIC_V2:
        return i
    at = i + MIN_BYTES + V1_TIMESTAMP_BYTES * p[i + ENTRY_MAGIC]
    codec = p[i + LEGACY_FLAGS] & CODEC
    if not GZIP <= codec <= LZ4 or end < at or not offset_goes_on(be64(p, i), last_offset):
        return i
    size = be32(p, at - KEY_SIZE_BYTES)
    if be32(p, at - SIZES_BYTES) != -1 or size < 0:
        return i
    # Random bytes can look like such a header, and must not hide an intact message behind them.
    if at + size == i + ENTRY_OVERHEAD + be32(p, i + ENTRY_SIZE) or begins_stream(p, at, end, codec):
        return at + size
    return i


def begins_stream(p, at, end, codec):
    """Whether the bytes at ``at`` begin with the magic number of gzip, of Kafka's snappy framing or of an lz4 frame."""
    if codec == GZIP:
        return end - at >= 2 and p[at] == 0x1F and p[at + 1] == 0x8B
    if codec == SNAPPY:
        return end - at >= 8 and be64(p, at) == SNAPPY_START
    return end - at >= 4 and be32(p, at) == LZ4_START


def claimed_end(
    buffer: BytesIn, position: cython.Py_ssize_t, end: cython.Py_ssize_t, v07: cython.bint, largest: cython.longlong
) -> int:
    """Returns the end of the entry at a position by its length field, 0 if that is not plausible (`claimed_bytes`).

    Raises ValueError if the position or ``end`` is outside the buffer.
    """
    if position < 0 or end > len(buffer):
        raise ValueError("no such bytes")
    size = claimed_bytes(bytes_in(buffer), position, end, v07, largest) if position < end else 0
    return position + size if size else 0


def continues(head: BytesIn, last_offset: cython.longlong) -> bool:
    """Whether ``head``, up to 61 bytes, is plausible as the header of the batch behind ``last_offset`` (-1: unknown).

    Checks fields that are rarely right in random bytes: offset, magic, attributes, and counts or key and value sizes.
    Neither the CRC nor the end of the batch is checked.
    """
    return bool(goes_on(bytes_in(head), 0, len(head), last_offset))


def offset_continues(offset: cython.longlong, last_offset: cython.longlong) -> bool:
    """Whether a batch may begin at ``offset`` after ``last_offset`` (-1: unknown)."""
    return bool(offset_goes_on(offset, last_offset))


def leading_zeros(buffer: BytesIn) -> int:
    """Returns the number of zero bytes at the start of a buffer."""
    return zeros_ahead(bytes_in(buffer), 0, len(buffer))


def long_zeros(buffer: BytesIn, least: cython.Py_ssize_t) -> int:
    """Returns the number of zero bytes of a buffer in runs of at least ``least``."""
    return zeros_in_runs(bytes_in(buffer), 0, len(buffer), least)
