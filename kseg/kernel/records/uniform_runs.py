"""Finds runs of intact, uncompressed batches with identical header fields, whose records are read in one call."""

import cython
from cython.cimports.kseg.kernel.codecs.recoding import check_records
from cython.cimports.kseg.kernel.layout.headers import (
    APPEND_TIME,
    CREATE_TIME,
    LEGACY_FLAGS,
    LOG_APPEND_TIME,
    MAGIC_V2,
    NO_TIME,
    V1_TIMESTAMP,
    V2_ATTRIBUTES,
    V2_COUNT,
    V2_FLAGS,
    V2_HEADER_BYTES,
    V2_LAST_OFFSET_DELTA,
    V2_MAX_TIMESTAMP,
    V2_PRODUCER_ID,
)
from cython.cimports.kseg.kernel.layout.rows import (
    CRC_RIGHT,
    FRAME_MAGIC,
    FRAME_POSITION,
    FRAME_SIZE,
    FRAME_STATE,
    FRAME_WIDTH,
    be32,
    be64,
    bytes_in,
    int64s_in,
)
from cython.cimports.kseg.kernel.records.plain import check_frames, is_legacy_plain

ALL_BITS = cython.declare(cython.int, 255)
LARGEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


class UniformRun:
    """Finds the longest run of intact, uncompressed batches with identical header fields.

    ``next_offset``: the next batch must not be below. Of the run found: ``kind`` of its timestamps (NO_TIME,
    CREATE_TIME, APPEND_TIME), ``time`` in ms where that is APPEND_TIME, ``timed`` batches that have a timestamp.
    """

    def __init__(self, next_offset=0):
        self.next_offset = next_offset
        self.kind = self.time = self.timed = 0

    def find(
        self,
        buffer: cython.const[cython.uchar][::1],
        frames: cython.const[cython.longlong][::1],
        first: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> int:
        """Returns the end of the run that begins with frame ``first``; ``frames`` are rows FRAME_* of ``buffer``.

        Raises ValueError if frames lie outside the buffer.
        """
        check_frames(len(buffer), frames, first, stop)
        if first >= stop:
            return first
        return count_alike(self, bytes_in(buffer), int64s_in(frames), first, stop)


def is_plain_batch(p, at, size):
    """Whether a v2 batch has valid uncompressed records, and neither producer nor transaction."""
    if size <= V2_HEADER_BYTES or p[at + V2_ATTRIBUTES] or p[at + V2_FLAGS] & (ALL_BITS - LOG_APPEND_TIME):
        return False
    if be64(p, at + V2_PRODUCER_ID) != -1 or be32(p, at + V2_COUNT) <= 0:
        return False
    return check_records(p, at, p, at + V2_HEADER_BYTES, at + size)


def count_alike(run, p, frames, first, stop):
    """`UniformRun.find` for checked buffers: returns the end of the run."""
    i: cython.Py_ssize_t
    frame: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    kind: cython.longlong
    time: cython.longlong
    delta: cython.longlong
    magic: cython.longlong = frames[first * FRAME_WIDTH + FRAME_MAGIC]
    run.timed = 0
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        size = frames[frame + FRAME_SIZE]
        if frames[frame + FRAME_MAGIC] != magic or not frames[frame + FRAME_STATE] & CRC_RIGHT:
            return i
        delta = 0
        kind = NO_TIME
        time = -1
        if magic == MAGIC_V2:
            if not is_plain_batch(p, at, size):
                return i
            delta = be32(p, at + V2_LAST_OFFSET_DELTA)
            kind = APPEND_TIME if p[at + V2_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
            time = be64(p, at + V2_MAX_TIMESTAMP)
        elif magic == 0 or magic == 1:
            if not is_legacy_plain(p, at, size, cython.cast(cython.int, magic)):
                return i
            if p[at + LEGACY_FLAGS] & (ALL_BITS - LOG_APPEND_TIME * magic):
                return i
            if magic == 1:
                kind = APPEND_TIME if p[at + LEGACY_FLAGS] & LOG_APPEND_TIME else CREATE_TIME
                time = be64(p, at + V1_TIMESTAMP)
        else:
            return i
        if be64(p, at) < run.next_offset or delta < 0 or be64(p, at) >= LARGEST_OFFSET - delta:
            return i
        if i == first:
            run.kind = kind
            run.time = time
        elif kind != run.kind or (kind == APPEND_TIME and time != run.time):
            return i
        run.next_offset = be64(p, at) + delta + 1
        run.timed += time >= 0
    return stop
