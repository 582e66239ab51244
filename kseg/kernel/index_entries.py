"""Follows the entries of an offset or a time index along the batches of its segment (rows BATCH_*), in one pass.

Entries are sorted as batches are, so one is held until its batch comes by. ``data`` is a window of the file's bytes.
``state`` (int64[STATE_WIDTH], in and out) is kept from call to call. Columns:

     0 NEXT       entry to be taken next            1 TOTAL     entries in use
     2 FIRST      entry that the window begins with 3 LOADED    entries in the window
     4 BASE       base offset of the segment        5 IS_SHORT  set where the window must be moved to NEXT to go on
     6 HELD       whether an entry is held: 7 AT, its number, 8 OFFSET, 9 VALUE (position, or timestamp in ms)
    10, 11        OFFSET and VALUE of the last entry in order; -2^63 before one was seen
    12 EVENTS     written by this call              13 LIMIT of events of one kind
    14 END        position behind the last batch    15 LAST_OFFSET that is believed, -1 none
    16 LARGEST    timestamp so far, -1 none         17 HAS_UNSEEN  LARGEST may be too low: v0, damage, empty
    18 PENDING    offset of an entry that stands for several batches, of which not all were seen; -1 none
    19 PENDING_AT its number                        20 INDEXED  position of the last batch that an entry leads to
    21 FARTHEST   bytes between a batch and the last one before it that an entry leads to; 22 FARTHEST_AT, the latter
    23 CERTAIN    LARGEST of the batches whose offsets are believed
    24 IS_DOUBTED whether the offsets of the last batch are not believed
    25 HAS_V2     whether there are batches of v2 (time index only)
    32.. counts of each kind of event, exact where LIMIT cuts the rows off; 48.. number of the last entry of each kind

``events``: KIND, AT, OFFSET, VALUE, A each.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
        be32,
        be64,
    )
else:
    from kseg.kernel.native import (
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
        be32,
        be64,
    )

COMPILED = cython.compiled

STATE_WIDTH, EVENT_WIDTH = 64, 5
NEXT, TOTAL, FIRST, LOADED, BASE, IS_SHORT, HELD, AT, OFFSET, VALUE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
BEFORE_OFFSET, BEFORE_VALUE, EVENTS, LIMIT, END, LAST_OFFSET, LARGEST, HAS_UNSEEN = 10, 11, 12, 13, 14, 15, 16, 17
PENDING, PENDING_AT, INDEXED, FARTHEST, FARTHEST_AT, CERTAIN, IS_DOUBTED, HAS_V2 = 18, 19, 20, 21, 22, 23, 24, 25
COUNTS, LAST_AT = 32, 48

OFFSETS, TIMES = 8, 12
"""The two kinds of index, by the bytes of an entry."""
LOOK_AHEAD = 2
"""Entries behind the one to be taken that must be in the window, if the file has them."""

BELOW_BASE = 1
"""The offset is below the base offset of the segment."""
NEGATIVE = 2
"""The position is negative."""
UNSORTED = 3
"""The entry is not in line with its neighbours. A: offset of the last entry that is."""
NO_BATCH = 4
"""The position lies inside a batch. A: where the next one begins."""
TOO_LOW = 5
"""The batch begins behind the entry's offset. A: its first offset; of a compressed v0 or v1 message one below it."""
IMPRECISE = 6
"""The offset is that of no batch's end, nor of the batch's beginning, and leads nobody astray. A: the batch's last."""
BEYOND = 7
"""The log ends before the position or the offset. A: last offset of the log."""
TOO_OLD = 8
"""A record up to the offset has a later timestamp. A: the largest timestamp up to there."""
TOO_NEW = 9
"""No record up to the offset has a timestamp as late. A: the largest timestamp up to there."""
KINDS = 10

_ROOM = cython.declare(cython.longlong, 0x7FFFFFFF)
_LARGEST = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def tell(
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    kind: cython.longlong,
    entry: cython.longlong,
    offset: cython.longlong,
    value: cython.longlong,
    a: cython.longlong,
) -> cython.void:
    at: cython.Py_ssize_t
    state[32 + kind] += 1
    state[48 + kind] = entry
    if state[32 + kind] > state[13] or state[12] >= capacity:
        return
    at = state[12] * 5
    events[at] = kind
    events[at + 1] = entry
    events[at + 2] = offset
    events[at + 3] = value
    events[at + 4] = a
    state[12] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def offset_of(
    data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, width: cython.int, base: cython.longlong
) -> cython.longlong:
    """The absolute offset of the entry at data[at]; -1 where it is beyond what offsets can be."""
    relative: cython.longlong = be32(data, at if width == 8 else at + 8)
    if relative > 0 and base > _LARGEST - relative:
        return -1
    return base + relative


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def value_of(
    data: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, width: cython.int
) -> cython.longlong:
    return be32(data, at + 4) if width == 8 else be64(data, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def follows(
    width: cython.int,
    offset_before: cython.longlong,
    value_before: cython.longlong,
    offset: cython.longlong,
    value: cython.longlong,
) -> cython.bint:
    """Whether an entry may come behind another: values rise, and offsets do; those of a time index may stay."""
    return value > value_before and (offset > offset_before or (width == 12 and offset == offset_before))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_out_of_line(
    data: cython.pointer[cython.const[cython.uchar]],
    width: cython.int,
    state: cython.pointer[cython.longlong],
    offset: cython.longlong,
    value: cython.longlong,
) -> cython.bint:
    """Whether the two entries behind the one just taken go on from what is before it, and not from it."""
    k: cython.longlong
    at: cython.Py_ssize_t
    next_offset: cython.longlong
    next_value: cython.longlong
    behind: cython.longlong = state[1] - state[0]
    if behind < 2:
        return False
    for k in range(2):
        at = (state[0] + k - state[2]) * width
        next_offset = offset_of(data, at, width, state[4])
        next_value = value_of(data, at, width)
        if follows(width, offset, value, next_offset, next_value):
            return False
        if next_offset < state[4] or not follows(width, state[10], state[11], next_offset, next_value):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take(
    data: cython.pointer[cython.const[cython.uchar]],
    width: cython.int,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    """Holds the next entry that is in order, if there is one; sets IS_SHORT where the window ends too soon to tell."""
    i: cython.longlong
    at: cython.Py_ssize_t
    offset: cython.longlong
    value: cython.longlong
    kind: cython.longlong
    while not state[6] and state[0] < state[1]:
        i = state[0]
        if min(i + 2, state[1] - 1) >= state[2] + state[3] or i < state[2]:
            state[5] = 1
            return
        at = (i - state[2]) * width
        offset = offset_of(data, at, width, state[4])
        value = value_of(data, at, width)
        state[0] += 1
        kind = 0
        if offset < state[4]:
            kind = 1
        elif width == 8 and value < 0:
            kind = 2
        elif not follows(width, state[10], state[11], offset, value) or is_out_of_line(
            data, width, state, offset, value
        ):
            kind = 3
        if kind:
            tell(state, events, capacity, kind, i, offset, value, state[10])
            continue
        state[6] = 1
        state[7] = i
        state[8] = state[10] = offset
        state[9] = state[11] = value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_believed(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    """Whether the offsets of row i fit between those before and behind; that they do not, others tell."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    after: cython.Py_ssize_t = at + BATCH_WIDTH
    if rows[at + BATCH_MAGIC] < 2 and first < 0:
        first = last
    if not rows[at + BATCH_STATE] & 1 or first <= state[15] or first < state[4] or last < first:
        return False
    if last - state[4] > _ROOM:
        return False
    return i + 1 >= count or not rows[after + BATCH_STATE] & 1 or rows[after + BATCH_LAST_OFFSET] > last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_offset(
    row: cython.pointer[cython.const[cython.longlong]],
    at: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    """The held entry of an offset index, which leads to this row."""
    first: cython.longlong = row[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = row[at + BATCH_LAST_OFFSET]
    is_known: cython.bint = first >= 0 or row[at + BATCH_MAGIC] >= 2
    if state[8] > last:
        state[18] = state[8]
        state[19] = state[7]
    elif state[8] != last:
        if is_known and state[8] < first:
            tell(state, events, capacity, 5, state[7], state[8], state[9], first)
        elif not is_known and state[8] <= state[15]:
            tell(state, events, capacity, 5, state[7], state[8], state[9], state[15])
        elif is_known and state[8] != first:
            tell(state, events, capacity, 6, state[7], state[8], state[9], last)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def offsets_row(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    """One batch for an offset index. To be repeated from its beginning where it ends with IS_SHORT."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    position: cython.longlong = rows[at + BATCH_POSITION]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    believed: cython.bint = is_believed(rows, i, count, state)
    if believed and 0 <= state[18] <= last:
        if state[18] != last:
            tell(state, events, capacity, 6, state[19], state[18], -1, last)
        state[18] = -1
    take(data, 8, state, events, capacity)
    while state[6] and state[9] <= position:
        state[6] = 0
        if state[9] == position:
            if state[18] >= 0:
                tell(state, events, capacity, 6, state[19], state[18], -1, state[15])
                state[18] = -1
            if believed:
                judge_offset(rows, at, state, events, capacity)
            state[20] = position
        elif state[9] < state[14]:
            tell(state, events, capacity, 4, state[7], state[8], state[9], state[14])
        take(data, 8, state, events, capacity)
    if state[5]:
        return
    if position - state[20] > state[21]:
        state[21] = position - state[20]
        state[22] = state[20]
    state[14] = position + rows[at + BATCH_SIZE]
    state[24] = not believed
    if believed:
        state[15] = last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def times_row(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    """One batch for a time index. To be repeated from its beginning where it ends with IS_SHORT."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    own: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    lower: cython.longlong
    believed: cython.bint = is_believed(rows, i, count, state)
    # The cleaner does not index the empty batches that it keeps; a broker's recovery does.
    is_counted: cython.bint = rows[at + BATCH_STATE] & 1 and rows[at + BATCH_MAGIC] != 0 and rows[at + BATCH_COUNT] != 0
    take(data, 12, state, events, capacity)
    while believed and state[6] and state[8] <= last:
        state[6] = 0
        lower = state[23]
        if is_counted and own > lower and (state[8] == last or 0 <= first <= state[8]):
            lower = own
        if state[9] < lower:
            tell(state, events, capacity, 8, state[7], state[8], state[9], lower)
        elif is_counted and not state[17] and state[9] > state[16] and state[9] > own:
            tell(state, events, capacity, 9, state[7], state[8], state[9], max(state[16], own))
        take(data, 12, state, events, capacity)
    if state[5]:
        return
    state[14] = rows[at + BATCH_POSITION] + rows[at + BATCH_SIZE]
    state[24] = not believed
    if believed:
        state[15] = last
    if rows[at + BATCH_MAGIC] >= 2:
        state[25] = 1
    if not is_counted:
        state[17] = 1
    else:
        if own > state[16]:
            state[16] = own
        if believed and own > state[23]:
            state[23] = own


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_rows(
    width: cython.int,
    rows: cython.pointer[cython.const[cython.longlong]],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    state[5] = state[12] = 0
    for i in range(start, count):
        if width == 8:
            offsets_row(rows, i, count, data, state, events, capacity)
        else:
            times_row(rows, i, count, data, state, events, capacity)
        if state[5]:
            return i
    return count


def follow(
    width: cython.int,
    rows: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    state: cython.longlong[::1],
    events: cython.longlong[::1],
) -> int:
    """Shows rows ``start`` to ``count`` to the index of the kind ``width``; the row to go on with once the window was
    moved, ``count`` where none is left."""
    check(width, data, state, events)
    if start >= count:
        state[EVENTS] = 0
        return count
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            start = follow_rows(
                width,
                cython.address(rows[0]),
                start,
                count,
                cython.address(data[0]),
                cython.address(state[0]),
                cython.address(events[0]),
                events.shape[0] // 5,
            )
    else:
        start = follow_rows(width, rows, start, count, data, state, events, len(events) // 5)
    return start


def check(
    width: cython.int,
    data: cython.const[cython.uchar][::1],
    state: cython.const[cython.longlong][::1],
    events: cython.const[cython.longlong][::1],
) -> None:
    """Raises ValueError where a buffer has not the room that ``state`` tells, or none at all."""
    if width not in (8, 12) or len(state) < 64 or len(events) < 5 or len(data) < max(width, state[3] * width):
        raise ValueError("a buffer is too short")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def drain_entries(
    width: cython.int,
    size: cython.longlong,
    data: cython.pointer[cython.const[cython.uchar]],
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    state[5] = state[12] = 0
    take(data, width, state, events, capacity)
    while state[6]:
        state[6] = 0
        if size >= 0 and width == 12 and state[8] > state[15]:
            tell(state, events, capacity, 7, state[7], state[8], state[9], state[15])
        elif size >= 0 and width == 8 and state[9] >= size:
            tell(state, events, capacity, 7, state[7], state[8], state[9], state[15])
        elif size >= 0 and width == 8 and state[9] < state[14]:
            tell(state, events, capacity, 4, state[7], state[8], state[9], state[14])
        take(data, width, state, events, capacity)


def drain(
    width: cython.int,
    size: cython.longlong,
    data: cython.const[cython.uchar][::1],
    state: cython.longlong[::1],
    events: cython.longlong[::1],
) -> bool:
    """The entries that no batch was met for; True where the window must be moved and this be called again.

    ``size``: bytes of the log, of which all batches were shown; -1 where it is not to be compared with.
    """
    check(width, data, state, events)
    if cython.compiled:
        with cython.nogil:
            drain_entries(
                width,
                size,
                cython.address(data[0]),
                cython.address(state[0]),
                cython.address(events[0]),
                events.shape[0] // 5,
            )
    else:
        drain_entries(width, size, data, state, events, len(events) // 5)
    return bool(state[5])
