"""Packs fingerprints of batches for a manifest: a few bytes that identify a batch and its place.

The fingerprint of a batch: its size (varint), the difference of its last offset from the previous batch's (zigzag
varint, modulo 2^64; from 0 for the first batch), and the CRC-32C of all its bytes with the header (4 bytes,
little-endian).
"""

import cython

native_setup()

MAX_FINGERPRINT_BYTES = 24
"""Largest size of the fingerprint of one batch."""


def put_uvarint(out, at, value):
    """Writes an unsigned varint, the lowest seven bits first. Returns the position after it."""
    while value > 127:
        out[at] = (value & 127) | 128
        at += 1
        value >>= 7
    out[at] = value & 127
    return at + 1


def pack(buffer: BytesIn, rows: Int64sIn, count: cython.Py_ssize_t, origin: cython.longlong, out: BytesOut) -> int:
    """Writes the fingerprints of ``count`` contiguous batches (rows BATCH_*). Returns the number of bytes written.

    ``buffer`` has the bytes of the file from ``origin`` on. Raises ValueError if a buffer is too short.
    """
    at: cython.Py_ssize_t = 0
    before: cython.longlong = 0
    if count <= 0:
        return 0
    last = (count - 1) * BATCH_WIDTH
    if len(rows) < count * BATCH_WIDTH or len(out) < count * MAX_FINGERPRINT_BYTES:
        raise ValueError("a buffer is too short")
    if rows[BATCH_POSITION] < origin or rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE] - origin > len(buffer):
        raise ValueError("batches lie outside the buffer")
    p, batches, to = bytes_in(buffer), int64s_in(rows), bytes_out(out)
    with cython.nogil:
        for i in range(count):
            row = i * BATCH_WIDTH
            start = batches[row + BATCH_POSITION] - origin
            at = put_uvarint(to, at, batches[row + BATCH_SIZE])
            at = put_varint(to, at, difference(batches[row + BATCH_LAST_OFFSET], before))
            before = batches[row + BATCH_LAST_OFFSET]
            crc = crc32c(0, p, start, start + batches[row + BATCH_SIZE])
            for k in range(4):
                to[at + k] = crc >> (8 * k) & 255
            at += 4
    return at
