"""Replays what a broker knows of its producers from rows of batch headers (BATCH_*): epochs, sequences, transactions.

The rules are those of ProducerStateManager and ProducerAppendInfo for replicated batches, which nothing is refused but
a batch without transaction inside an open one. Producers lie in ``entries`` in the order in which they were first
seen, ENTRY_WIDTH int64 each:

     0 ID                1 EPOCH            2 LAST_SEQUENCE, -1 none     3 LAST_OFFSET of data, -1 none
     4 OFFSET_DELTA      5 TIMESTAMP ms     6 COORDINATOR_EPOCH          7 TXN_FIRST offset of the open one, -1 none
     8 TXN_BEFORE, 9 TXN_BEHIND             indexes of the entries with the next older and younger open one, -1 none
    10 TXN_TIMESTAMP     largest of its first batch, ms                 11 TXN_BATCHES with data so far
    12 TXN_FILLED        those of them that hold records               13 TXN_POSITION of its first batch
    14 SEEN              last offset of any batch seen, -1 loaded       15 TXN_MARKER  ms of the first marker behind its
                                                                           begin, whosesoever, -1 none
    16 DATA_TIMESTAMP    of its last batch with data, ms
``slots`` finds them: 2^n int64, index + 1 or 0, open addressing by a hash with the random odd number SEED, so that no
file can choose its producer ids to collide. ``state`` (int64[STATE_WIDTH]):

     0 PRODUCERS         in use             1 SEED                       2 OLDEST, 3 YOUNGEST  open transaction, -1 none
     4 OPEN              how many           5 STOP  before the first batch at or above this offset, -1 nowhere
     6 EVENTS, 7 ABORTS  written by a call  8 LAST_OFFSET largest seen   9 AFTER_HOLE  first offset behind the last gap
    10 AFTER_DAMAGE      first offset behind what was not believed      11 IS_AFTER_DAMAGE  something was not believed
    12 IS_FULL           producers were met that there was no room for  13 IDLE_MS  after which a broker forgets one
    14 NOW ms            timestamps beyond it do not count              15 LIMIT of events of one kind
    16 NEWEST_DATA ms    17 NEWEST_MARKER ms                            18 BATCHES with a producer  19 COMMITTED
    20 ABORTED           transactions with data                        21 AS_BROKER  rows are taken as they are
    22 FIRST_ENDED       smallest first offset of those with data that ended, -1 none
    32.. counts of each kind of event, exact where LIMIT cuts the rows off

With AS_BROKER neither checksums nor the order of offsets count, as in a broker's own replay: only OUTSIDE and SHARED
events are told, STOP does not count, and a marker that is not plain (`is_plain_marker`) is left to the caller.

``events``: KIND, ROW, A, B, C each. ``aborts``, for each ABORT marker: producer id, first offset (-1 if no transaction
was open), the marker's offset, last stable offset as LogSegment.recover computes it, the marker's position, TXN_FILLED,
whether all is known from the first offset on.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_PRODUCER_ID,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
    )
    from cython.cimports.kseg.kernel.producer_table import index_of
    from cython.cimports.kseg.kernel.producer_updates import replay_data, replay_marker, tell
else:
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MAGIC,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_PRODUCER_ID,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
    )
    from kseg.kernel.producer_table import index_of
    from kseg.kernel.producer_updates import replay_data, replay_marker, tell

COMPILED = cython.compiled

ENTRY_WIDTH, STATE_WIDTH, EVENT_WIDTH, ABORT_WIDTH = 17, 64, 5, 7
ID, EPOCH, LAST_SEQUENCE, LAST_OFFSET, OFFSET_DELTA, TIMESTAMP, COORDINATOR_EPOCH, TXN_FIRST = 0, 1, 2, 3, 4, 5, 6, 7
TXN_BEFORE, TXN_BEHIND, TXN_TIMESTAMP, TXN_BATCHES, TXN_FILLED, TXN_POSITION = 8, 9, 10, 11, 12, 13
SEEN, TXN_MARKER, DATA_TIMESTAMP = 14, 15, 16
PRODUCERS, SEED, OLDEST, YOUNGEST, OPEN, STOP, EVENTS, ABORTS, LARGEST_OFFSET, AFTER_HOLE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
AFTER_DAMAGE, IS_AFTER_DAMAGE, IS_FULL, IDLE_MS, NOW, LIMIT, NEWEST_DATA, NEWEST_MARKER = 10, 11, 12, 13, 14, 15, 16, 17
BATCHES, COMMITTED, ABORTED, AS_BROKER, FIRST_ENDED, COUNTS = 18, 19, 20, 21, 22, 32

SEQUENCE = 1
"""A: the sequence expected, B: the one found, C: 1 where offsets are missing since the producer's batch before."""
EPOCH_FALLS = 2
"""A: the producer's epoch before, B: that of the batch, C: 1 for a marker."""
COORDINATOR_FALLS = 3
"""A: the coordinator's epoch before, B: that of the marker."""
OUTSIDE = 4
"""A batch that is not transactional. A: first offset of the producer's open transaction."""
LOST_MARKER = 5
"""Data of a later epoch in an open transaction. A: its first offset, B: epoch of the transaction, C: of the batch."""
BAD_MARKER = 6
"""A: type of the marker, -1 where it cannot be read."""
SHARED = 7
"""A transaction ends while another producer's, that began at the same offset, is open. A: that offset."""
KINDS = 8

PLAIN_MARKER_BYTES = 78
"""A batch of one transaction marker, as brokers write it: its timestamp is the base timestamp."""

ABORT, COMMIT = 0, 1
_MAX_OFFSET = cython.declare(cython.longlong, 1 << 62)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_offsets(
    first: cython.longlong, last: cython.longlong, state: cython.pointer[cython.longlong]
) -> cython.void:
    """Notes where offsets do not go on: what is not known of the producers since."""
    if state[11]:
        state[11] = 0
        state[10] = first if first > state[8] else state[8] + 1
    elif state[8] >= 0 and first != state[8] + 1:
        if first > state[8]:
            state[9] = first
        else:
            state[10] = state[8] + 1
    if last > state[8]:
        state[8] = last


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pass_over(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Passes over batches of no producer from row i on that go on from the one before; the first that does not."""
    at: cython.Py_ssize_t
    last: cython.longlong = state[8]
    newest: cython.longlong = state[16]
    stop: cython.longlong = _MAX_OFFSET if state[5] < 0 or state[5] > _MAX_OFFSET else state[5]
    if state[21]:
        while i < count and rows[i * BATCH_WIDTH + BATCH_PRODUCER_ID] < 0:
            i += 1
        return i
    if state[11] or last < 0 or last >= _MAX_OFFSET:
        return i
    while i < count:
        at = i * BATCH_WIDTH
        if (
            rows[at + BATCH_PRODUCER_ID] >= 0
            or rows[at + BATCH_FIRST_OFFSET] != last + 1
            or not rows[at + BATCH_STATE] & 1
            or rows[at + BATCH_MAGIC] < 2
            or rows[at + BATCH_LAST_OFFSET] <= last
            or rows[at + BATCH_LAST_OFFSET] >= stop
            or rows[at + BATCH_ATTRIBUTES] & 32
        ):
            break
        last = rows[at + BATCH_LAST_OFFSET]
        if newest < rows[at + BATCH_MAX_TIMESTAMP] <= state[14]:
            newest = rows[at + BATCH_MAX_TIMESTAMP]
        i += 1
    state[8] = last
    state[16] = newest
    return i


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_plain_marker(rows: cython.pointer[cython.const[cython.longlong]], at: cython.Py_ssize_t) -> cython.bint:
    """Whether the control batch is intact, and holds what a broker writes when a transaction ends."""
    return (
        rows[at + BATCH_STATE] & 1
        and rows[at + BATCH_SIZE] == 78
        and rows[at + BATCH_COUNT] == 1
        and 0 <= rows[at + BATCH_MARKER] <= 1
        and rows[at + BATCH_COORDINATOR_EPOCH] >= 0
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replay_as_broker(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    entries: cython.pointer[cython.longlong],
    room: cython.longlong,
    slots: cython.pointer[cython.longlong],
    mask: cython.longlong,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    aborts: cython.pointer[cython.longlong],
    abort_room: cython.Py_ssize_t,
) -> cython.bint:
    """Replays row i as it is, unless it is to stop before it."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    index: cython.longlong
    is_control: cython.bint = (rows[at + BATCH_ATTRIBUTES] >> 5) & 1
    if rows[at + BATCH_MAGIC] < 2 or rows[at + BATCH_PRODUCER_ID] < 0:
        return True
    if state[7] >= abort_room:
        return False
    if is_control and rows[at + BATCH_COUNT] != 0 and not is_plain_marker(rows, at):
        return False
    index = index_of(rows[at + BATCH_PRODUCER_ID], entries, room, slots, mask, state)
    if index < 0:
        return state[12]
    if not is_control:
        replay_data(rows, i, entries, index, state, events, capacity)
    elif rows[at + BATCH_COUNT] != 0:
        replay_marker(rows, i, entries, index, state, events, capacity, aborts)
    entries[index * 17 + 14] = rows[at + BATCH_LAST_OFFSET]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replay_one(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    entries: cython.pointer[cython.longlong],
    room: cython.longlong,
    slots: cython.pointer[cython.longlong],
    mask: cython.longlong,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    aborts: cython.pointer[cython.longlong],
    abort_room: cython.Py_ssize_t,
) -> cython.bint:
    """Replays row i, unless it is to stop before it."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    index: cython.longlong = -1
    is_control: cython.bint
    if (
        not rows[at + BATCH_STATE] & 1
        or not 0 <= rows[at + BATCH_LAST_OFFSET] < _MAX_OFFSET
        or (rows[at + BATCH_MAGIC] >= 2 and not 0 <= rows[at + BATCH_FIRST_OFFSET] <= rows[at + BATCH_LAST_OFFSET])
    ):
        state[11] = 1
        return True
    if state[5] >= 0 and rows[at + BATCH_LAST_OFFSET] >= state[5]:
        return False
    if rows[at + BATCH_MAGIC] < 2:
        follow_offsets(state[8] + 1, rows[at + BATCH_LAST_OFFSET], state)
        return True
    is_control = (rows[at + BATCH_ATTRIBUTES] >> 5) & 1
    if not is_control and state[16] < rows[at + BATCH_MAX_TIMESTAMP] <= state[14]:
        state[16] = rows[at + BATCH_MAX_TIMESTAMP]
    if rows[at + BATCH_PRODUCER_ID] < 0:
        # Only the log of KRaft has control batches of no producer, of types from LEADER_CHANGE on.
        if is_control and rows[at + BATCH_COUNT] != 0 and not 2 <= rows[at + BATCH_MARKER] <= 6:
            tell(state, events, capacity, 6, i, rows[at + BATCH_MARKER], 0, 0)
        follow_offsets(rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET], state)
        return True
    if state[7] >= abort_room:
        return False
    # A marker's value ends in its coordinator's epoch, which no broker ever took for -1.
    if not is_control or (0 <= rows[at + BATCH_MARKER] <= 1 and rows[at + BATCH_COORDINATOR_EPOCH] >= 0):
        index = index_of(rows[at + BATCH_PRODUCER_ID], entries, room, slots, mask, state)
        if index < 0 and not state[12]:
            return False
    elif rows[at + BATCH_COUNT] != 0:
        tell(state, events, capacity, 6, i, rows[at + BATCH_MARKER], 0, 0)
    state[18] += 1
    follow_offsets(rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET], state)
    if index < 0:
        return True
    if is_control:
        replay_marker(rows, i, entries, index, state, events, capacity, aborts)
    else:
        replay_data(rows, i, entries, index, state, events, capacity)
    entries[index * 17 + 14] = rows[at + BATCH_LAST_OFFSET]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replay_rows(
    rows: cython.pointer[cython.const[cython.longlong]],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    entries: cython.pointer[cython.longlong],
    room: cython.longlong,
    slots: cython.pointer[cython.longlong],
    mask: cython.longlong,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    aborts: cython.pointer[cython.longlong],
    abort_room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t = start
    is_done: cython.bint
    while i < count:
        i = pass_over(rows, i, count, state)
        if i < count:
            if state[21]:
                is_done = replay_as_broker(
                    rows, i, entries, room, slots, mask, state, events, capacity, aborts, abort_room
                )
            else:
                is_done = replay_one(rows, i, entries, room, slots, mask, state, events, capacity, aborts, abort_room)
            if not is_done:
                return i
            i += 1
    return count


def replay(
    rows: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    entries: cython.longlong[::1],
    slots: cython.longlong[::1],
    state: cython.longlong[::1],
    events: cython.longlong[::1],
    aborts: cython.longlong[::1],
) -> int:
    """Replays rows ``start`` to ``count``; the row before which it stopped.

    That is ``count``, or the first at or above STOP, or the one where there is no room left: in ``aborts``, or for one
    more producer (unless IS_FULL says that there will be none), or AS_BROKER a marker that is not plain. Events beyond
    their room are counted only.
    """
    done: cython.Py_ssize_t
    state[6] = 0
    state[7] = 0
    if count <= start:
        return start
    if start < 0 or len(rows) < count * BATCH_WIDTH or len(state) < 64 or len(events) < 5 or len(aborts) < 7:
        raise ValueError("a buffer is too short")
    if len(slots) * 17 <= len(entries) or len(slots) & (len(slots) - 1):
        raise ValueError("the table of producers has no free slot")
    if cython.compiled:
        with cython.nogil:
            done = replay_rows(
                cython.address(rows[0]),
                start,
                count,
                cython.address(entries[0]),
                entries.shape[0] // 17,
                cython.address(slots[0]),
                slots.shape[0] - 1,
                cython.address(state[0]),
                cython.address(events[0]),
                events.shape[0] // 5,
                cython.address(aborts[0]),
                aborts.shape[0] // 7,
            )
    else:
        done = replay_rows(
            rows, start, count, entries, len(entries) // 17, slots, len(slots) - 1, state, events, len(events) // 5,
            aborts, len(aborts) // 7,
        )  # fmt: skip
    return done
