"""What one batch changes in the state of its producer: steps of `kseg.kernel.producers`, whose columns these are."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_SEQUENCE,
        BATCH_BASE_TIMESTAMP,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_PRODUCER_EPOCH,
        BATCH_WIDTH,
        difference,
    )
    from cython.cimports.kseg.kernel.plain import sequence_after
    from cython.cimports.kseg.kernel.producer_table import close_transaction, open_transaction
else:
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_SEQUENCE,
        BATCH_BASE_TIMESTAMP,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_PRODUCER_EPOCH,
        BATCH_WIDTH,
        difference,
    )
    from kseg.kernel.plain import sequence_after
    from kseg.kernel.producer_table import close_transaction, open_transaction

COMPILED = cython.compiled


@cython.cfunc
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
    if state[32 + kind] > state[15] or state[6] >= capacity:
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
def is_remembered(
    entries: cython.pointer[cython.const[cython.longlong]],
    e: cython.longlong,
    timestamp: cython.longlong,
    state: cython.pointer[cython.const[cython.longlong]],
) -> cython.bint:
    """Whether all is known of the producer since its batch before, and a broker has not forgotten it for being idle."""
    if entries[e + 1] < 0 or entries[e + 14] < state[10]:
        return False
    return timestamp < 0 or entries[e + 5] < 0 or timestamp - entries[e + 5] < state[13]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replay_data(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    entries: cython.pointer[cython.longlong],
    index: cython.longlong,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.void:
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    e: cython.longlong = index * 17
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: cython.longlong = rows[at + BATCH_PRODUCER_EPOCH]
    sequence: cython.longlong = rows[at + BATCH_BASE_SEQUENCE]
    timestamp: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    delta: cython.longlong = difference(rows[at + BATCH_LAST_OFFSET], first)
    is_transactional: cython.bint = (rows[at + BATCH_ATTRIBUTES] >> 4) & 1
    expected: cython.longlong = 0
    is_known: cython.bint = not state[21] and is_remembered(entries, e, timestamp, state)
    if is_known and epoch < entries[e + 1]:
        tell(state, events, capacity, 2, i, entries[e + 1], epoch, 0)
    elif is_known and sequence > 0 and epoch != entries[e + 1]:
        tell(state, events, capacity, 1, i, 0, sequence, entries[e + 14] < state[9])
    elif is_known and sequence > 0 and entries[e + 2] >= 0 and entries[e + 3] >= state[10]:
        expected = sequence_after(entries[e + 2], 1)
        if sequence != expected:
            tell(state, events, capacity, 1, i, expected, sequence, entries[e + 3] < state[9])
    if entries[e + 7] >= state[10] and entries[e + 7] >= 0:
        if epoch > entries[e + 1] and not state[21]:
            tell(state, events, capacity, 5, i, entries[e + 7], entries[e + 1], epoch)
        if not is_transactional:
            tell(state, events, capacity, 4, i, entries[e + 7], 0, 0)
    entries[e + 1] = epoch
    entries[e + 2] = sequence_after(sequence, delta)
    entries[e + 3] = rows[at + BATCH_LAST_OFFSET]
    entries[e + 4] = delta
    entries[e + 5] = entries[e + 16] = timestamp
    if is_transactional:
        if entries[e + 7] < 0:
            open_transaction(entries, index, first, state)
            entries[e + 10] = timestamp
            entries[e + 11] = entries[e + 12] = 0
            entries[e + 13] = rows[at + BATCH_POSITION]
            entries[e + 15] = -1
        entries[e + 11] += 1
        if rows[at + BATCH_COUNT] > 0:
            entries[e + 12] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shares_first_offset(entries: cython.pointer[cython.const[cython.longlong]], e: cython.longlong) -> cython.bint:
    """Whether another open transaction begins where that of the entry at ``e`` does; its neighbours tell."""
    before: cython.longlong = entries[e + 8]
    behind: cython.longlong = entries[e + 9]
    if before >= 0 and entries[before * 17 + 7] == entries[e + 7]:
        return True
    return behind >= 0 and entries[behind * 17 + 7] == entries[e + 7]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replay_marker(
    rows: cython.pointer[cython.const[cython.longlong]],
    i: cython.Py_ssize_t,
    entries: cython.pointer[cython.longlong],
    index: cython.longlong,
    state: cython.pointer[cython.longlong],
    events: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
    aborts: cython.pointer[cython.longlong],
) -> cython.void:
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    e: cython.longlong = index * 17
    offset: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: cython.longlong = rows[at + BATCH_PRODUCER_EPOCH]
    timestamp: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    other: cython.longlong = state[2]
    young: cython.longlong = state[3]
    row: cython.Py_ssize_t
    is_known: cython.bint = not state[21] and is_remembered(entries, e, timestamp, state)
    if not rows[at + BATCH_ATTRIBUTES] & 8:
        timestamp = rows[at + BATCH_BASE_TIMESTAMP]
    if is_known and epoch < entries[e + 1]:
        tell(state, events, capacity, 2, i, entries[e + 1], epoch, 1)
    if is_known and rows[at + BATCH_COORDINATOR_EPOCH] < entries[e + 6]:
        tell(state, events, capacity, 3, i, entries[e + 6], rows[at + BATCH_COORDINATOR_EPOCH], 0)
    if state[17] < timestamp <= state[14]:
        state[17] = timestamp
    while young >= 0 and entries[young * 17 + 15] < 0:
        entries[young * 17 + 15] = timestamp
        young = entries[young * 17 + 8]
    if rows[at + BATCH_MARKER] == 0:
        if other == index:
            other = entries[e + 9]
        row = state[7] * 7
        aborts[row] = entries[e]
        aborts[row + 1] = entries[e + 7]
        aborts[row + 2] = offset
        aborts[row + 3] = entries[other * 17 + 7] if other >= 0 else offset + 1
        aborts[row + 4] = rows[at + BATCH_POSITION]
        aborts[row + 5] = entries[e + 12] if entries[e + 7] >= 0 else 0
        aborts[row + 6] = entries[e + 7] >= state[9] and entries[e + 7] >= state[10]
        state[7] += 1
    if entries[e + 7] >= 0:
        state[20 if rows[at + BATCH_MARKER] == 0 else 19] += 1
        if state[22] < 0 or entries[e + 7] < state[22]:
            state[22] = entries[e + 7]
        if state[21] and shares_first_offset(entries, e):
            tell(state, events, capacity, 7, i, entries[e + 7], 0, 0)
        close_transaction(entries, index, state)
    if epoch != entries[e + 1]:
        entries[e + 1] = epoch
        entries[e + 2] = entries[e + 3] = entries[e + 16] = -1
        entries[e + 4] = 0
    entries[e + 5] = timestamp
    entries[e + 6] = rows[at + BATCH_COORDINATOR_EPOCH]
