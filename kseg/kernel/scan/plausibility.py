"""What bytes tell that no checksum vouches for: a header's fields where it ends and what it goes on from, and zeros.

A header lies at ``p[i]``; none of its bytes at ``end`` or behind are looked at. ``v07``: the file is of 0.7, whose
messages begin with their length.
"""

import cython
from cython.cimports.kseg.kernel.layout.rows import be16, be32, be64
from cython.cimports.kseg.kernel.native.search import zeros_ahead, zeros_in_runs

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
LEAST_BYTES = cython.declare(cython.Py_ssize_t, 26)
SHORT_TAIL_BYTES = cython.declare(cython.Py_ssize_t, 17)
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)
INT62_MAX = cython.declare(cython.longlong, 0x3FFFFFFFFFFFFFFF)
INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
SNAPPY_START = cython.declare(cython.longlong, -0x7DACB1BEAFAFA700)
LZ4_START = cython.declare(cython.longlong, 0x04224D18)


def claimed_bytes(p, i, end, v07, largest):
    """Bytes of the entry at i, whatever its magic, if its length holds a header and fits before end; else 0.

    A length beyond ``largest`` is not believed on its own word.
    """
    size: cython.longlong
    least: cython.longlong
    magic: cython.int
    if v07:
        if end - i < 9:
            return 0
        size = be32(p, i)
        least = 6 if p[i + 4] else 5
        return size + 4 if least <= size <= largest and size <= end - i - 4 else 0
    if end - i <= SHORT_TAIL_BYTES:
        return 0
    size = be32(p, i + 8)
    magic = p[i + 16]
    least = 49 if 2 <= magic < 128 else 14 if magic == 0 else 22
    return size + 12 if least <= size <= largest and size <= end - i - 12 else 0


def offset_goes_on(offset, last_offset):
    return offset >= 0 and (last_offset < 0 or 0 < offset - last_offset <= INT32_MAX)


def goes_on(p, i, end, last_offset):
    """`continues` for the bytes [i, end), of which 61 are looked at."""
    size: cython.longlong
    last_delta: cython.longlong
    count: cython.longlong
    if end - i < LEAST_BYTES or p[i + 16] > 2 or not offset_goes_on(be64(p, i), last_offset):
        return False
    size = be32(p, i + 8)
    if p[i + 16] < 2:
        return message_sizes_fit(p, i, end if end - i < HEADER_BYTES else i + HEADER_BYTES, size)
    if size < 49 or end - i < HEADER_BYTES or p[i + 21] or p[i + 22] & 0x80 or (p[i + 22] & 7) > 4:
        return False
    last_delta = be32(p, i + 23)
    count = be32(p, i + 57)
    return (
        0 <= count <= last_delta + 1
        and (p[i + 22] & 7 or count * 7 <= size - 49)
        and be32(p, i + 12) >= -1
        and be64(p, i + 43) >= -1
        and be16(p, i + 51) >= -1
        and be32(p, i + 53) >= -1
    )


def message_sizes_fit(p, i, end, size):
    """Whether key and value of the v0 or v1 entry fill its size exactly, as far as the bytes before end tell."""
    magic: cython.int = p[i + 16]
    attributes: cython.int = p[i + 17]
    at: cython.Py_ssize_t = i + 18 + 8 * magic
    key_size: cython.longlong
    value_size: cython.longlong
    if attributes & (0xF0 if magic else 0xF8) or attributes & 7 > 3 or size < 14 + 8 * magic or end < at + 4:
        return False
    key_size = be32(p, at)
    if key_size < -1:
        return False
    if key_size < 0:
        key_size = 0
    if key_size > size - 14 - 8 * magic:
        return False
    if key_size > end - at - 8:
        return True
    value_size = be32(p, at + 4 + key_size)
    if value_size < -1:
        return False
    return size == 14 + 8 * magic + key_size + (value_size if value_size > 0 else 0)


def last_offset_at(p, i, end):
    """The last offset of the header at i, as it stands there; of a sum that is no int64, the largest."""
    last: cython.longlong = be64(p, i)
    delta: cython.longlong
    if 2 <= p[i + 16] < 128 and end - i >= 27:
        delta = be32(p, i + 23)
        if delta > 0:
            return last + delta if last <= INT64_MAX - delta else INT64_MAX
        if last >= 0:
            return last + delta
    return last


def last_offset_claimed(p, i, end):
    """The last offset that the header at i claims, -1 if that is no offset."""
    last: cython.longlong = last_offset_at(p, i, end)
    return last if 0 <= last <= INT62_MAX else -1


def compressed_end(p, i, end, last_offset):
    """Where the compressed v0 or v1 message ends that begins at i, told by its key and value sizes; i where none does,
    or one that does not go on from ``last_offset`` (-1: unknown).
    """
    at: cython.Py_ssize_t
    size: cython.longlong
    codec: cython.int
    if end - i < LEAST_BYTES or p[i + 16] > 1:
        return i
    at = i + 26 + 8 * p[i + 16]
    codec = p[i + 17] & 7
    if not 1 <= codec <= 3 or end < at or not offset_goes_on(be64(p, i), last_offset):
        return i
    size = be32(p, at - 4)
    if be32(p, at - 8) != -1 or size < 0:
        return i
    # Nonsense can look like this much of a header, and must not hide an intact message behind it.
    if at + size == i + 12 + be32(p, i + 8) or begins_stream(p, at, end, codec):
        return at + size
    return i


def begins_stream(p, at, end, codec):
    """Whether the bytes at ``at`` begin as gzip (1), the framing of snappy that Kafka uses (2) or lz4 frames (3) do."""
    if codec == 1:
        return end - at >= 2 and p[at] == 0x1F and p[at + 1] == 0x8B
    if codec == 2:
        return end - at >= 8 and be64(p, at) == SNAPPY_START
    return end - at >= 4 and be32(p, at) == LZ4_START


def claimed_end(
    buffer: cython.const[cython.uchar][::1],
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    v07: cython.bint,
    largest: cython.longlong,
) -> int:
    """Where the length field at a position leads if that is before ``end``, else 0; see `claimed_bytes`."""
    size: cython.longlong
    if cython.compiled:
        if position < 0 or end > len(buffer):
            raise ValueError("no such bytes")
        size = claimed_bytes(cython.address(buffer[0]), position, end, v07, largest) if position < end else 0
    else:
        size = claimed_bytes(buffer, position, end, v07, largest)
    return position + size if size else 0


def continues(head: cython.const[cython.uchar][::1], last_offset: cython.longlong) -> bool:
    """Whether ``head``, up to 61 bytes, looks like the header of the batch behind ``last_offset`` (-1: unknown),
    whatever its CRC and end.

    Tests fields that random bytes do not get right: offset, magic, attributes, and counts or key and value sizes.
    """
    if cython.compiled:
        return len(head) > 0 and goes_on(cython.address(head[0]), 0, len(head), last_offset)
    else:
        return bool(goes_on(head, 0, len(head), last_offset))


def offset_continues(offset: cython.longlong, last_offset: cython.longlong) -> bool:
    """Whether a batch may begin at ``offset`` behind one that ends with ``last_offset`` (-1: unknown)."""
    return bool(offset_goes_on(offset, last_offset))


def leading_zeros(buffer: cython.const[cython.uchar][::1]) -> int:
    """How many zero bytes a buffer begins with."""
    if cython.compiled:
        return zeros_ahead(cython.address(buffer[0]), 0, len(buffer)) if len(buffer) else 0
    else:
        return zeros_ahead(buffer, 0, len(buffer))


def long_zeros(buffer: cython.const[cython.uchar][::1], least: cython.Py_ssize_t) -> int:
    """How many bytes of a buffer are zeros in runs of at least ``least``."""
    if cython.compiled:
        return zeros_in_runs(cython.address(buffer[0]), 0, len(buffer), least) if len(buffer) else 0
    else:
        return zeros_in_runs(buffer, 0, len(buffer), least)
