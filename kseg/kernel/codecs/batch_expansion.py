"""Decompresses many v2 batches into one buffer, end to end, for loops over uncompressed frames.

The output of a batch is its header without the codec, then its records. Length and CRC in the header stay those of the
compressed batch: the bit CRC_RIGHT of FRAME_STATE tells loops not to check them.
"""

import cython
from cython.cimports.kseg.kernel.codecs.expand import BUFFER_FULL, ExpansionBuffer, expand_batch
from cython.cimports.kseg.kernel.layout.headers import CODEC, MAGIC_V2, V2_COUNT, V2_FLAGS, V2_HEADER_BYTES
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, bytes_out, int64s_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import (
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    be32,
)
from cython.cimports.kseg.kernel.records.columns import WANTED_WIDTH, is_outside
from cython.cimports.kseg.kernel.records.plain import check_frames

if cython.compiled:
    from cython.cimports.libc.string import memcpy


NO_CODEC = cython.declare(cython.int, 0xF8)


def expand_frames(p, frames, count, wanted, out, capacity, zstd, expanded):
    """Returns the number of frames expanded; BUFFER_FULL if ``capacity`` is too small for the first."""
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    held: cython.Py_ssize_t
    largest: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    while i < count:
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        if not frames[i * FRAME_WIDTH + FRAME_STATE] & CRC_RIGHT or frames[i * FRAME_WIDTH + FRAME_MAGIC] != MAGIC_V2:
            return i
        if size <= V2_HEADER_BYTES or not p[at + V2_FLAGS] & CODEC:
            return i
        if cython.compiled and not be32(p, at + V2_COUNT):
            return i
        # If the largest batch so far would not fit, the next may not fit either, and decoding it in part is wasted.
        if capacity - filled < V2_HEADER_BYTES + largest:
            return i if i else BUFFER_FULL
        if cython.compiled:
            held = 0
            if not is_outside(p, frames + i * FRAME_WIDTH, wanted):
                held = expand_batch(
                    p, at, size, out + filled + V2_HEADER_BYTES, capacity - filled - V2_HEADER_BYTES, zstd
                )
            if held < 0:
                return i if i or held != BUFFER_FULL else BUFFER_FULL
            memcpy(out + filled, p + at, V2_HEADER_BYTES)
            out[filled + V2_FLAGS] &= NO_CODEC
            expanded[i * FRAME_WIDTH + FRAME_POSITION] = filled
            expanded[i * FRAME_WIDTH + FRAME_SIZE] = V2_HEADER_BYTES + held
            expanded[i * FRAME_WIDTH + FRAME_MAGIC] = 2
            expanded[i * FRAME_WIDTH + FRAME_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
            filled += V2_HEADER_BYTES + held
            if held > largest:
                largest = held
        i += 1
    return i


def expand_batches(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    wanted: cython.const[cython.longlong][::1],
    expansion: ExpansionBuffer,
    expanded: cython.longlong[::1],
) -> int:
    """Expands frames ``first`` to ``stop`` into ``expansion``, and writes their rows FRAME_* to ``expanded``.

    Returns the number of frames expanded; it stops at a frame that it cannot expand and when ``expanded`` is full. 0:
    the caller must open the first frame itself. An interpreted kernel always returns 0. If no record of a frame is
    ``wanted`` (int64[4], see `kseg.kernel.records.columns`), only its header is written.
    Raises ValueError if frames lie outside the buffer.
    """
    found: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]]
    asked: cython.pointer[cython.const[cython.longlong]]
    out: cython.pointer[cython.uchar]
    opened: cython.pointer[cython.longlong]
    if not cython.compiled or first >= stop or len(buf) == 0:
        return 0
    if len(expanded) < FRAME_WIDTH or len(wanted) < WANTED_WIDTH:
        raise ValueError("a buffer is too short")
    check_frames(len(buf), frames, first, stop)
    if cython.compiled:
        if stop - first > expanded.shape[0] // FRAME_WIDTH:
            stop = first + expanded.shape[0] // FRAME_WIDTH
        p = bytes_in(buf)
        asked = int64s_in(wanted)
        opened = int64s_out(expanded)
        while True:
            out = bytes_out(expansion.out)
            with cython.nogil:
                found = expand_frames(
                    p, cython.address(frames[first * FRAME_WIDTH]), stop - first, asked, out, expansion.capacity,
                    expansion.zstd, opened,
                )  # fmt: skip
            if found != BUFFER_FULL:
                return found
            if not expansion.extend(buf[frames[first * FRAME_WIDTH + FRAME_POSITION] + V2_FLAGS] & CODEC):
                return 0
