"""Builds the entries of an offset and a time index from header rows, as Kafka's LogSegment.recover does.

A batch gets an offset entry when more than ``interval`` bytes lie between its start and that of the batch indexed
before (at first: the start of the file); with it the time index gets the largest timestamp so far, this batch's
included, if it is larger than in the entry before. Entries are written as the files have them, big-endian: an offset
(int32, counted from the segment's base offset; of one that does not fit, the low 32 bits) and a position (int32); a
timestamp (int64) and an offset (int32).
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    OFFSET_ENTRY_BYTES,
    OFFSET_ENTRY_POSITION,
    TIME_ENTRY_BYTES,
    TIME_ENTRY_OFFSET,
)
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_WIDTH,
    difference,
    put_big,
)

_MAX_RELATIVE = cython.declare(cython.longlong, 0x7FFFFFFF)


class IndexBuild:
    """How far the entries of a segment have come, kept from call to call. -1 stands for none.

    ``uses_first_offset``: entries hold the first offset (1.1 and older); ``has_times`` false: there is no time index
    (0.10.0); ``takes_any``: offsets that do not fit the segment are no reason to stop (1.1 and older).

    ``last_position``: start of the batch indexed last, 0 at first. ``largest_timestamp`` and the last offset of its
    batch. ``last_offset`` in the offset index; ``last_timestamp`` and ``last_time_offset`` in the time index.
    ``offsets``, ``times``: entries written by a call; ``row`` of the batch that could not be indexed.
    """

    def __init__(self, base, interval, uses_first_offset=False, has_times=True, takes_any=False):
        self.base, self.interval = base, interval
        self.uses_first_offset, self.has_times, self.takes_any = uses_first_offset, has_times, takes_any
        self.last_position = 0
        self.largest_timestamp = self.largest_timestamp_offset = -1
        self.last_offset = self.last_timestamp = self.last_time_offset = -1
        self.offsets = self.times = self.row = 0


def index_rows(rows, count, build, offsets, times):
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    last: cython.longlong
    entry: cython.longlong
    build.offsets = build.times = 0
    for i in range(count):
        at = i * BATCH_WIDTH
        last = rows[at + BATCH_LAST_OFFSET]
        build.row = i
        if not build.takes_any and (last < build.base or last - build.base > _MAX_RELATIVE):
            return OUTSIDE
        if rows[at + BATCH_MAX_TIMESTAMP] > build.largest_timestamp:
            build.largest_timestamp = rows[at + BATCH_MAX_TIMESTAMP]
            build.largest_timestamp_offset = last
        if rows[at + BATCH_POSITION] - build.last_position <= build.interval:
            continue
        entry = last
        if build.uses_first_offset and rows[at + BATCH_FIRST_OFFSET] >= 0:
            entry = rows[at + BATCH_FIRST_OFFSET]
        if build.last_offset >= 0 and entry <= build.last_offset:
            return NOT_RISING
        put_big(offsets, OFFSET_ENTRY_BYTES * build.offsets, difference(entry, build.base), 4)
        put_big(offsets, OFFSET_ENTRY_BYTES * build.offsets + OFFSET_ENTRY_POSITION, rows[at + BATCH_POSITION], 4)
        build.offsets += 1
        build.last_offset = entry
        build.last_position = rows[at + BATCH_POSITION]
        if build.has_times and build.largest_timestamp > build.last_timestamp:
            if build.last_time_offset >= 0 and build.largest_timestamp_offset < build.last_time_offset:
                return NOT_RISING
            at = TIME_ENTRY_BYTES * build.times
            put_big(times, at, build.largest_timestamp, 8)
            put_big(times, at + TIME_ENTRY_OFFSET, difference(build.largest_timestamp_offset, build.base), 4)
            build.times += 1
            build.last_timestamp = build.largest_timestamp
            build.last_time_offset = build.largest_timestamp_offset
    return DONE


def index(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    build: IndexBuild,
    offsets: cython.uchar[::1],
    times: cython.uchar[::1],
) -> int:
    """Writes the entries for the first ``count`` rows to ``offsets`` and ``times``.

    Both have room for ``count`` entries. DONE, or why it ended at ``row``; entries before that are written.
    """
    status: cython.int
    if count <= 0:
        build.offsets = build.times = 0
        return DONE
    if len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if len(offsets) < OFFSET_ENTRY_BYTES * count or len(times) < TIME_ENTRY_BYTES * count:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            status = index_rows(
                cython.address(rows[0]),
                count,
                build,
                cython.address(offsets[0]),
                cython.address(times[0]),
            )
        return status
    else:
        return index_rows(rows, count, build, offsets, times)
