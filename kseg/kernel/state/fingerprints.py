"""Packs fingerprints of batches for a manifest: a few bytes that identify a batch and its place.

For every batch, one behind the other: its size (varint), what its last offset is above that of the batch before (zigzag
varint, modulo 2^64; the first counts from 0), CRC-32C of all its bytes, the header included (4 bytes, little-endian).
"""

import cython
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_LAST_OFFSET,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
    crc32c,
    native_setup,
)

native_setup()

MAX_FINGERPRINT_BYTES = 24
"""Of one batch."""

LOW_64_BITS = 0xFFFFFFFFFFFFFFFF


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_varint(out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, value: cython.ulonglong) -> cython.Py_ssize_t:
    """Seven bits a byte, lowest first; where it ends."""
    while value > 127:
        out[at] = (value & 127) | 128
        at += 1
        value >>= 7
    out[at] = value & 127
    return at + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def zigzag(last: cython.longlong, before: cython.longlong) -> cython.ulonglong:
    delta: cython.ulonglong
    if cython.compiled:
        delta = cython.cast(cython.ulonglong, last) - cython.cast(cython.ulonglong, before)
        return (delta << 1) ^ (~(delta >> 63) + 1)
    else:
        delta = last - before & LOW_64_BITS
        return (delta << 1 & LOW_64_BITS) ^ (LOW_64_BITS if delta >> 63 else 0)


def pack_rows(p, rows, count, origin, out):
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    row: cython.Py_ssize_t
    k: cython.Py_ssize_t
    crc: cython.uint
    before: cython.longlong = 0
    for i in range(count):
        row = i * BATCH_WIDTH
        start = rows[row + BATCH_POSITION] - origin
        at = put_varint(out, at, rows[row + BATCH_SIZE])
        at = put_varint(out, at, zigzag(rows[row + BATCH_LAST_OFFSET], before))
        before = rows[row + BATCH_LAST_OFFSET]
        crc = crc32c(0, p, start, start + rows[row + BATCH_SIZE])
        for k in range(4):
            out[at + k] = crc >> (8 * k) & 255
        at += 4
    return at


def pack(
    buffer: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    origin: cython.longlong,
    out: cython.uchar[::1],
) -> int:
    """Writes the fingerprints of ``count`` batches (rows BATCH_*, end to end); the number of bytes written.

    ``buffer`` holds the bytes of the file from ``origin`` on. Raises ValueError where a buffer is too short.
    """
    written: cython.Py_ssize_t
    last: cython.Py_ssize_t
    if count <= 0:
        return 0
    last = (count - 1) * BATCH_WIDTH
    if len(rows) < count * BATCH_WIDTH or len(out) < count * MAX_FINGERPRINT_BYTES:
        raise ValueError("a buffer is too short")
    if rows[BATCH_POSITION] < origin or rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE] - origin > len(buffer):
        raise ValueError("batches lie outside the buffer")
    if cython.compiled:
        with cython.nogil:
            written = pack_rows(
                cython.address(buffer[0]), cython.address(rows[0]), count, origin, cython.address(out[0])
            )
        return written
    else:
        return pack_rows(buffer, rows, count, origin, out)
