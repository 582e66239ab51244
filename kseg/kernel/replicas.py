"""Compares the records of two replicas, offset by offset: rows ROW_* of one against rows of the other.

``state`` (int64[STATE_WIDTH], in and out):

    0 NEXT_A  1 NEXT_B  rows that are done    2 EPOCHS_DIFFER  said of all rows of a call by the caller
    3 SAME  4 DIFFERENT  5 ONLY_A  6 ONLY_B   records      7 EVENTS written by this call
    8 LAST_SAME offset before any that is DIFFERENT, untouched where there is none
    9 IS_OPEN  the last record is part of the last event

``events``, EVENT_WIDTH each: KIND, FIRST and LAST offset of a range without a same record in it, records COUNT, WHAT
differs (bits).
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
    )
else:
    from kseg.kernel.native import (
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
    )

COMPILED = cython.compiled

STATE_WIDTH, EVENT_WIDTH = 10, 5
EVENT_WIDTH_C = cython.declare(cython.Py_ssize_t, 5)
NEXT_A, NEXT_B, EPOCHS_DIFFER, SAME, DIFFERENT, ONLY_A, ONLY_B, EVENTS, LAST_SAME, IS_OPEN = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
EXHAUSTED, MORE = 0, 1
"""All rows of A or of B are done; ``events`` is full."""

EPOCH, KEY, VALUE, TIMESTAMP, HEADERS = 1, 2, 4, 8, 16
"""Bits of WHAT, in the order of `WHAT_NAMES`."""
WHAT_NAMES = ("leader epoch", "key", "value", "timestamp", "headers")


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def are_same_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.longlong,
    size: cython.longlong,
    q: cython.pointer[cython.const[cython.uchar]],
    other_at: cython.longlong,
    other_size: cython.longlong,
) -> cython.bint:
    """Null (a size of -1) is the same as null only."""
    k: cython.longlong
    if size != other_size:
        return False
    if not cython.compiled:
        return size <= 0 or p[at : at + size] == q[other_at : other_at + size]
    for k in range(size):
        if p[at + k] != q[other_at + k]:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def what_differs(
    p: cython.pointer[cython.const[cython.uchar]],
    a: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    a_headers: cython.pointer[cython.const[cython.longlong]],
    q: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.const[cython.longlong]],
    j: cython.Py_ssize_t,
    b_headers: cython.pointer[cython.const[cython.longlong]],
) -> cython.longlong:
    what: cython.longlong = 0
    g: cython.Py_ssize_t = a[i + ROW_HEADERS] * HEADER_WIDTH
    h: cython.Py_ssize_t = b[j + ROW_HEADERS] * HEADER_WIDTH
    _k: cython.longlong
    if not are_same_bytes(p, a[i + ROW_KEY], a[i + ROW_KEY_SIZE], q, b[j + ROW_KEY], b[j + ROW_KEY_SIZE]):
        what |= 2
    if not are_same_bytes(p, a[i + ROW_VALUE], a[i + ROW_VALUE_SIZE], q, b[j + ROW_VALUE], b[j + ROW_VALUE_SIZE]):
        what |= 4
    # v0 has no timestamps, and what was converted from it has none either.
    if a[i + ROW_TIMESTAMP] != b[j + ROW_TIMESTAMP] and a[i + ROW_TIMESTAMP] != -1 and b[j + ROW_TIMESTAMP] != -1:
        what |= 8
    if a[i + ROW_HEADER_COUNT] != b[j + ROW_HEADER_COUNT]:
        return what | 16
    for _k in range(a[i + ROW_HEADER_COUNT]):
        if not are_same_bytes(
            p,
            a_headers[g + HEADER_KEY],
            a_headers[g + HEADER_KEY_SIZE],
            q,
            b_headers[h + HEADER_KEY],
            b_headers[h + HEADER_KEY_SIZE],
        ) or not are_same_bytes(
            p,
            a_headers[g + HEADER_VALUE],
            a_headers[g + HEADER_VALUE_SIZE],
            q,
            b_headers[h + HEADER_VALUE],
            b_headers[h + HEADER_VALUE_SIZE],
        ):
            return what | 16
        g += HEADER_WIDTH
        h += HEADER_WIDTH
    return what


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def tell(
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    goes_on: cython.bint,
    kind: cython.longlong,
    offset: cython.longlong,
    what: cython.longlong,
) -> cython.bint:
    """Adds a record to the last event if it ``goes_on`` from it, else makes one; false where there is no room."""
    at: cython.Py_ssize_t = (state[7] - 1) * EVENT_WIDTH_C
    if goes_on and state[7] > 0 and events[at] == kind and events[at + 4] == what:
        events[at + 2] = offset
        events[at + 3] += 1
        return True
    if state[7] >= capacity:
        return False
    at += EVENT_WIDTH_C
    events[at] = kind
    events[at + 1] = offset
    events[at + 2] = offset
    events[at + 3] = 1
    events[at + 4] = what
    state[7] += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def compare_rows(
    p: cython.pointer[cython.const[cython.uchar]],
    a: cython.pointer[cython.const[cython.longlong]],
    a_headers: cython.pointer[cython.const[cython.longlong]],
    a_count: cython.Py_ssize_t,
    q: cython.pointer[cython.const[cython.uchar]],
    b: cython.pointer[cython.const[cython.longlong]],
    b_headers: cython.pointer[cython.const[cython.longlong]],
    b_count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    x: cython.longlong
    y: cython.longlong
    what: cython.longlong
    goes_on: cython.bint = False
    state[7] = 0
    state[9] = 1
    while state[0] < a_count and state[1] < b_count:
        i = state[0] * ROW_WIDTH
        j = state[1] * ROW_WIDTH
        x = a[i + ROW_OFFSET]
        y = b[j + ROW_OFFSET]
        if x < y:
            if not tell(events, capacity, state, goes_on, 5, x, 0):
                return 1
            goes_on = True
            state[0] += 1
            state[5] += 1
            continue
        if y < x:
            if not tell(events, capacity, state, goes_on, 6, y, 0):
                return 1
            goes_on = True
            state[1] += 1
            state[6] += 1
            continue
        what = what_differs(p, a, i, a_headers, q, b, j, b_headers) | (1 if state[2] else 0)
        if what:
            if not tell(events, capacity, state, goes_on, 4, x, what):
                return 1
            goes_on = True
            state[4] += 1
        else:
            goes_on = False
            state[3] += 1
            if state[4] == 0:
                state[8] = x
        state[0] += 1
        state[1] += 1
    state[9] = goes_on
    return 0


def compare(
    a_payload: cython.const[cython.uchar][::1],
    a_rows: cython.const[cython.longlong][::1],
    a_headers: cython.const[cython.longlong][::1],
    a_count: cython.Py_ssize_t,
    b_payload: cython.const[cython.uchar][::1],
    b_rows: cython.const[cython.longlong][::1],
    b_headers: cython.const[cython.longlong][::1],
    b_count: cython.Py_ssize_t,
    state: cython.longlong[::1],
    events: cython.longlong[::1],
) -> int:
    """Goes on with rows NEXT_A of A and NEXT_B of B; EXHAUSTED or MORE. KIND of an event: DIFFERENT, ONLY_A or ONLY_B.

    Rows are as decoders leave them: what they point to lies in the payload.
    """
    if state[0] >= a_count or state[1] >= b_count:
        state[7] = 0
        return EXHAUSTED
    if (
        len(a_rows) < a_count * ROW_WIDTH
        or len(b_rows) < b_count * ROW_WIDTH
        or len(state) < STATE_WIDTH
        or len(events) < EVENT_WIDTH
        or min(state[0], state[1]) < 0
        or 0 in (len(a_payload), len(b_payload), len(a_headers), len(b_headers))
    ):
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            status = compare_rows(
                cython.address(a_payload[0]),
                cython.address(a_rows[0]),
                cython.address(a_headers[0]),
                a_count,
                cython.address(b_payload[0]),
                cython.address(b_rows[0]),
                cython.address(b_headers[0]),
                b_count,
                cython.address(state[0]),
                cython.address(events[0]),
                events.shape[0] // EVENT_WIDTH_C,
            )
        return status
    else:
        return compare_rows(
            a_payload, a_rows, a_headers, a_count, b_payload, b_rows, b_headers, b_count, state, events,
            len(events) // EVENT_WIDTH,
        )  # fmt: skip
