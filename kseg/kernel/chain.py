"""Follows batches from header to header (rows BATCH_*) and tells where one does not go on from the one before.

``state`` (int64[STATE_WIDTH], in and out) is kept from call to call. Columns:

     0 LAST_OFFSET  of the last batch believed, -1 none yet       1 LAST_EPOCH   -1 none yet
     2 BASE         base offset of the segment, -1 unknown        3 IS_AFTER_DAMAGE  something was not believed since
     4 LATEST       ms: a later timestamp is an event             5 LIMIT of events of one kind in a segment
     6 EVENTS       written by this call
     8 BATCHES  9 RECORDS (known without opening)  10 V0  11 V1  12 V2  13 TRANSACTIONAL  14 CONTROL  15 WITH_PRODUCER
    16 COMPRESSED  17 LARGEST_TIMESTAMP ms  18 its batch's LAST_OFFSET  19 FIRST_OFFSET, -1 none
    20 HOLED        batches that have room for more records than they count, of compressed v0 and v1 those once opened
    21 MISSING      offsets in all gaps
    22 WITH_HORIZON batches with a delete horizon
    23 LEAST_TIMESTAMP ms, -1 none
    24 PLACELESS    offsets that belong to a batch before whose own are wrong: a gap no larger is that batch's
    32.. counts of each kind of event in the segment, exact where LIMIT cuts the rows off

``events``: KIND, ROW, A, B, C each.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_TIMESTAMP,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_PRODUCER_ID,
        BATCH_STATE,
        BATCH_WIDTH,
        difference,
        sum_of,
    )
else:
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_TIMESTAMP,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_MAX_TIMESTAMP,
        BATCH_PRODUCER_ID,
        BATCH_STATE,
        BATCH_WIDTH,
        difference,
        sum_of,
    )

COMPILED = cython.compiled

STATE_WIDTH, EVENT_WIDTH = 64, 5
LAST_OFFSET, LAST_EPOCH, BASE, IS_AFTER_DAMAGE, LATEST, LIMIT, EVENTS = 0, 1, 2, 3, 4, 5, 6
BATCHES, RECORDS, V0, V1, V2, TRANSACTIONAL, CONTROL, WITH_PRODUCER = 8, 9, 10, 11, 12, 13, 14, 15
COMPRESSED, LARGEST_TIMESTAMP, LARGEST_TIMESTAMP_OFFSET, FIRST_OFFSET = 16, 17, 18, 19
HOLED, MISSING, WITH_HORIZON, LEAST_TIMESTAMP, PLACELESS, COUNTS = 20, 21, 22, 23, 24, 32

INVALID = 1
"""The checksum or the magic is wrong. A: last offset believed before it, or -1."""
GAP = 2
"""A: the offset expected, B: the first one found, C: 1 where what lies before the batch was damaged."""
NOT_RISING = 3
"""A: last offset before, B: offset of the batch."""
WRONG_OFFSET = 4
"""The base offset alone is wrong, the batch behind goes on from what it should be. A: expected, B: found.

Of a compressed v0 or v1 message B is the last offset, and A that or, where C is 1, no more than the least it can be."""
OUTSIDE = 5
"""A: an offset that the segment cannot hold."""
ATTRIBUTES = 6
"""A: attributes with bits that no release sets."""
COUNT = 7
"""A: records counted, B: offsets there is room for."""
EPOCH_FALLS = 8
"""A: leader epoch before, B: that of the batch."""
LATE = 9
"""A: a timestamp later than LATEST."""
KINDS = 10

_ROOM = cython.declare(cython.longlong, 0x7FFFFFFF)
_NO_END = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFE)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def tell(
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    kind: cython.longlong,
    i: cython.Py_ssize_t,
    a: cython.longlong,
    b: cython.longlong,
    c: cython.longlong,
) -> cython.void:
    at: cython.Py_ssize_t
    state[32 + kind] += 1
    if state[32 + kind] > state[5] or state[6] >= capacity:
        return
    at = state[6] * 5
    events[at] = kind
    events[at + 1] = i
    events[at + 2] = a
    events[at + 3] = b
    events[at + 4] = c
    state[6] += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def count_batch(
    row: cython.pointer[cython.const[cython.longlong]], at: cython.Py_ssize_t, state: cython.pointer[cython.longlong]
) -> cython.void:
    """Adds one valid batch to the numbers."""
    magic: cython.longlong = row[at + BATCH_MAGIC]
    attributes: cython.longlong = row[at + BATCH_ATTRIBUTES]
    count: cython.longlong = row[at + BATCH_COUNT]
    largest: cython.longlong = row[at + BATCH_MAX_TIMESTAMP]
    if count > 0:
        state[9] += count
    state[10 + (magic if 0 <= magic <= 2 else 2)] += 1
    if attributes & 7:
        state[16] += 1
    if magic == 2:
        state[13] += (attributes >> 4) & 1
        state[14] += (attributes >> 5) & 1
        state[22] += (attributes >> 6) & 1
        if row[at + BATCH_PRODUCER_ID] >= 0:
            state[15] += 1
        if count <= difference(row[at + BATCH_LAST_OFFSET], row[at + BATCH_FIRST_OFFSET]):
            state[20] += 1
        if not attributes & 64 and count > 0:
            least(state, row[at + BATCH_BASE_TIMESTAMP])
    elif row[at + BATCH_STATE] & 2 and 0 < count <= difference(
        row[at + BATCH_LAST_OFFSET], row[at + BATCH_FIRST_OFFSET]
    ):
        # A compressed set that was opened, and in which nothing is wrong.
        state[20] += 1
    if magic == 1:
        least(state, largest)
    if largest > state[17]:
        state[17] = largest
        state[18] = row[at + BATCH_LAST_OFFSET]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def least(state: cython.pointer[cython.longlong], timestamp: cython.longlong) -> cython.void:
    if timestamp >= 0 and (state[23] < 0 or timestamp < state[23]):
        state[23] = timestamp


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def goes_on(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    after: cython.longlong,
) -> cython.bint:
    """Whether the batch behind row i is valid and begins at offset ``after``."""
    at: cython.Py_ssize_t = (i + 1) * BATCH_WIDTH
    return i + 1 < count and (rows[at + BATCH_STATE] & 1) and rows[at + BATCH_FIRST_OFFSET] == after


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def least_offset(
    rows: cython.pointer[cython.const[cython.longlong]], i: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> cython.longlong:
    """The first offset of row i, its last one where that is unknown; -1 where there is no such row, or no valid one."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    if i >= count or not rows[at + BATCH_STATE] & 1:
        return -1
    if rows[at + BATCH_MAGIC] >= 2 or rows[at + BATCH_FIRST_OFFSET] >= 0:
        return rows[at + BATCH_FIRST_OFFSET]
    return rows[at + BATCH_LAST_OFFSET]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def room_of(rows: cython.pointer[cython.const[cython.longlong]], i: cython.Py_ssize_t) -> cython.longlong:
    """Offsets that row i needs wherever it belongs; at least so many for a compressed v0 or v1 message."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    count: cython.longlong = rows[at + BATCH_COUNT]
    if rows[at + BATCH_MAGIC] >= 2:
        count = sum_of(difference(rows[at + BATCH_LAST_OFFSET], rows[at + BATCH_FIRST_OFFSET]), 1)
    return count if count > 1 else 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_astray(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    before: cython.longlong,
) -> cython.bint:
    """Whether the v0 or v1 message of row i is far ahead, while the two behind it go on from those before it."""
    one: cython.longlong
    two: cython.longlong
    if rows[i * BATCH_WIDTH + BATCH_MAGIC] >= 2 or before < 0:
        return False
    one = least_offset(rows, i + 1, count)
    two = least_offset(rows, i + 2, count)
    return before < one < two and two < rows[i * BATCH_WIDTH + BATCH_LAST_OFFSET]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def step_back(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    """Whether to go on from row i, which lies below the offsets before it: those behind it do not go on from these."""
    following: cython.longlong = least_offset(rows, i + 1, count)
    state[24] = room_of(rows, i)
    return 0 <= following <= state[0]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_offsets(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    before: cython.longlong = state[0]
    expected: cython.longlong = expected_offset(state)
    after: cython.longlong
    is_known: cython.bint = first >= 0 or rows[at + BATCH_MAGIC] >= 2
    # Where the batch would end if its base offset were the one expected.
    after = sum_of(sum_of(expected, difference(last, first)), 1)
    if state[2] >= 0 and (last < state[2] or last - state[2] > _ROOM or (is_known and first < state[2])):
        if before >= 0 and is_known and goes_on(rows, i, count, after):
            tell(state, events, capacity, 4, i, expected, first, 0)
            state[0] = sum_of(after, -1)
            return
        tell(state, events, capacity, 5, i, first if is_known and first < state[2] else last, 0, 0)
        if last < state[2] or last - state[2] > _ROOM:
            state[24] = room_of(rows, i)
            return
    if is_known and (before >= 0 or state[2] >= 0) and first != expected:
        if (before >= 0 or expected > first) and goes_on(rows, i, count, after):
            tell(state, events, capacity, 4, i, expected, first, 0)
            state[0] = sum_of(after, -1)
            state[3] = 0
            return
    if is_astray(rows, i, count, before):
        tell(state, events, capacity, 4, i, expected, last, 1)
        state[24] = room_of(rows, i)
        return
    if is_known and (before >= 0 or state[2] >= 0) and first > expected:
        if difference(first, expected) > state[24]:
            tell(state, events, capacity, 2, i, expected, first, state[3])
            state[21] = sum_of(state[21], difference(first, expected))
    elif before >= 0 and (first if is_known else last) <= before:
        tell(state, events, capacity, 3, i, before, first if is_known else last, 0)
        if not step_back(rows, i, count, state):
            return
    if state[19] < 0:
        state[19] = first if is_known else last
    state[0] = last
    state[3] = state[24] = 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def expected_offset(state: cython.pointer[cython.longlong]) -> cython.longlong:
    return state[2] if state[0] < 0 and state[2] >= 0 else sum_of(state[0], 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_believable(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    expected: cython.longlong,
) -> cython.bint:
    """Whether row i, which is not valid, goes on from the batch before it and the one behind goes on from it."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    last: cython.longlong = rows[at + BATCH_LAST_OFFSET]
    if rows[at + BATCH_FIRST_OFFSET] != expected and (
        rows[at + BATCH_FIRST_OFFSET] >= 0 or rows[at + BATCH_MAGIC] >= 2
    ):
        return False
    return last >= expected and goes_on(rows, i, count, sum_of(last, 1))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_plain(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Passes over batches from row i on that go on from the one before in every way; the first that does not.

    They are what `follow_one` would have nothing to say of, and its totals of them: nearly all batches of most logs.
    """
    begin: cython.Py_ssize_t = i
    at: cython.Py_ssize_t
    last: cython.longlong = state[0]
    epoch: cython.longlong = state[1]
    latest: cython.longlong = state[4]
    largest: cython.longlong = state[17]
    earliest: cython.longlong = state[23]
    most: cython.longlong = _NO_END if state[2] < 0 else sum_of(state[2], _ROOM)
    records: cython.longlong = 0
    compressed: cython.longlong = 0
    produced: cython.longlong = 0
    largest_at: cython.Py_ssize_t = -1
    if last < 0 or state[19] < 0 or last < state[2] or last > most:
        return i
    while i < count:
        at = i * BATCH_WIDTH
        if (
            rows[at + BATCH_FIRST_OFFSET] != last + 1
            or rows[at + BATCH_MAGIC] != 2
            or not rows[at + BATCH_STATE] & 1
            or rows[at + BATCH_ATTRIBUTES] & ~15
            or rows[at + BATCH_COUNT] < 1
            or rows[at + BATCH_COUNT] != difference(rows[at + BATCH_LAST_OFFSET], last)
            or rows[at + BATCH_LAST_OFFSET] > most
            or rows[at + BATCH_LEADER_EPOCH] != epoch
            or rows[at + BATCH_MAX_TIMESTAMP] > latest
        ):
            break
        last = rows[at + BATCH_LAST_OFFSET]
        records += rows[at + BATCH_COUNT]
        compressed += (rows[at + BATCH_ATTRIBUTES] & 7) != 0
        produced += rows[at + BATCH_PRODUCER_ID] >= 0
        if rows[at + BATCH_MAX_TIMESTAMP] > largest:
            largest = rows[at + BATCH_MAX_TIMESTAMP]
            largest_at = at
        if 0 <= rows[at + BATCH_BASE_TIMESTAMP] and (earliest < 0 or rows[at + BATCH_BASE_TIMESTAMP] < earliest):
            earliest = rows[at + BATCH_BASE_TIMESTAMP]
        i += 1
    if i == begin:
        return i
    state[0] = last
    state[3] = state[24] = 0
    state[8] += i - begin
    state[9] += records
    state[12] += i - begin
    state[15] += produced
    state[16] += compressed
    state[23] = earliest
    if largest_at >= 0:
        state[17] = largest
        state[18] = rows[largest_at + BATCH_LAST_OFFSET]
    return i


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_rows(
    rows: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    i: cython.Py_ssize_t = 0
    state[6] = 0
    while i < count:
        i = follow_plain(rows, i, count, state)
        if i < count:
            follow_one(rows, i, count, state, events, capacity)
            i += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_one(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    epoch: cython.longlong
    room: cython.longlong
    state[8] += 1
    if not rows[at + BATCH_STATE] & 1:
        tell(state, events, capacity, 1, i, state[0], 0, 0)
        if is_believable(rows, i, count, expected_offset(state)):
            state[0] = rows[at + BATCH_LAST_OFFSET]
        else:
            state[3] = 1
        return
    count_batch(rows, at, state)
    if rows[at + BATCH_MAGIC] == 2:
        room = sum_of(difference(rows[at + BATCH_LAST_OFFSET], rows[at + BATCH_FIRST_OFFSET]), 1)
        if rows[at + BATCH_COUNT] > room or rows[at + BATCH_COUNT] < 0 or room < 1:
            tell(state, events, capacity, 7, i, rows[at + BATCH_COUNT], room, 0)
        epoch = rows[at + BATCH_LEADER_EPOCH]
        if epoch < state[1]:
            tell(state, events, capacity, 8, i, state[1], epoch, 0)
        if epoch >= 0:
            state[1] = epoch
    if rows[at + BATCH_ATTRIBUTES] & (0xFF80 if rows[at + BATCH_MAGIC] == 2 else 0xF0):
        tell(state, events, capacity, 6, i, rows[at + BATCH_ATTRIBUTES], 0, 0)
    if rows[at + BATCH_MAX_TIMESTAMP] > state[4]:
        tell(state, events, capacity, 9, i, rows[at + BATCH_MAX_TIMESTAMP], 0, 0)
    follow_offsets(rows, i, count, state, events, capacity)


def follow(
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    state: cython.longlong[::1],
    events: cython.longlong[::1],
) -> int:
    """Follows the first ``count`` rows; the number of events written. Those without room are only counted."""
    if count <= 0:
        return 0
    if len(rows) < count * BATCH_WIDTH or len(state) < 64 or len(events) < 5:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            follow_rows(
                cython.address(rows[0]),
                count,
                cython.address(state[0]),
                cython.address(events[0]),
                events.shape[0] // 5,
            )
    else:
        follow_rows(rows, count, state, events, len(events) // 5)
    return state[6]
