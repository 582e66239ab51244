"""Builds the entries of an offset and a time index from header rows, as Kafka's LogSegment.recover does.

A batch gets an offset entry when more than INTERVAL bytes lie between its start and that of the batch indexed before
(at first: the start of the file); with it the time index gets the largest timestamp so far, this batch's included, if
it is larger than in the entry before. Entries are written as the files have them, big-endian: an offset (int32, counted
from BASE; of one that does not fit, the low 32 bits) and a position (int32); a timestamp (int64) and an offset (int32).

``state`` (int64[STATE_WIDTH], in and out):

    0 LAST_POSITION   start of the batch indexed last, 0 at first      1 INTERVAL bytes     2 BASE offset
    3 LARGEST_TIMESTAMP, 4 its OFFSET; -1 both at first                5 LAST_OFFSET in the offset index, -1: no entry
    6 LAST_TIMESTAMP, 7 LAST_TIME_OFFSET in the time index; -1, -1: no entry
    8 USES_FIRST_OFFSET   1: entries hold the first offset (1.1 and older)    9 HAS_TIMES    0: no time index (0.10.0)
    10 OFFSETS, 11 TIMES  entries written by this call                 12 ROW of the batch that could not be indexed
    13 TAKES_ANY  1: offsets that do not fit the segment are no reason to stop (1.1 and older)
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_WIDTH,
        difference,
        put_big,
    )
else:
    from kseg.kernel.native import (
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_WIDTH,
        difference,
        put_big,
    )

COMPILED = cython.compiled

STATE_WIDTH, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES = 16, 8, 12
LAST_POSITION, INTERVAL, BASE, LARGEST_TIMESTAMP, LARGEST_TIMESTAMP_OFFSET, LAST_OFFSET = 0, 1, 2, 3, 4, 5
LAST_TIMESTAMP, LAST_TIME_OFFSET, USES_FIRST_OFFSET, HAS_TIMES, OFFSETS, TIMES, ROW = 6, 7, 8, 9, 10, 11, 12
TAKES_ANY = 13

DONE, OUTSIDE, NOT_RISING = 0, 1, 2
"""OUTSIDE: a last offset below BASE or 2^31 and more above it; NOT_RISING: the index refuses an entry. ROW tells."""

_ROOM = cython.declare(cython.longlong, 0x7FFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_rows(
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    offsets: cython.pointer[cython.uchar],
    times: cython.pointer[cython.uchar],
) -> cython.int:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    last: cython.longlong
    entry: cython.longlong
    state[10] = state[11] = 0
    for i in range(count):
        at = i * BATCH_WIDTH
        last = rows[at + BATCH_LAST_OFFSET]
        state[12] = i
        if not state[13] and (last < state[2] or last - state[2] > _ROOM):
            return 1
        if rows[at + BATCH_MAX_TIMESTAMP] > state[3]:
            state[3] = rows[at + BATCH_MAX_TIMESTAMP]
            state[4] = last
        if rows[at + BATCH_POSITION] - state[0] <= state[1]:
            continue
        entry = last
        if state[8] and rows[at + BATCH_FIRST_OFFSET] >= 0:
            entry = rows[at + BATCH_FIRST_OFFSET]
        if state[5] >= 0 and entry <= state[5]:
            return 2
        put_big(offsets, 8 * state[10], difference(entry, state[2]), 4)
        put_big(offsets, 8 * state[10] + 4, rows[at + BATCH_POSITION], 4)
        state[10] += 1
        state[5] = entry
        state[0] = rows[at + BATCH_POSITION]
        if state[9] and state[3] > state[6]:
            if state[7] >= 0 and state[4] < state[7]:
                return 2
            put_big(times, 12 * state[11], state[3], 8)
            put_big(times, 12 * state[11] + 8, difference(state[4], state[2]), 4)
            state[11] += 1
            state[6] = state[3]
            state[7] = state[4]
    return 0


def index(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    state: cython.longlong[::1],
    offsets: cython.uchar[::1],
    times: cython.uchar[::1],
) -> int:
    """Writes the entries for the first ``count`` rows to ``offsets`` and ``times``.

    Both have room for ``count`` entries. DONE, or why it ended at ROW; entries before that are written.
    """
    status: cython.int
    if count <= 0:
        state[10] = state[11] = 0
        return 0
    if len(rows) < count * BATCH_WIDTH or len(state) < 16 or len(offsets) < 8 * count or len(times) < 12 * count:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            status = index_rows(
                cython.address(rows[0]),
                count,
                cython.address(state[0]),
                cython.address(offsets[0]),
                cython.address(times[0]),
            )
        return status
    else:
        return index_rows(rows, count, state, offsets, times)
