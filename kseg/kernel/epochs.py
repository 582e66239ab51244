"""Finds where the leader epoch changes from batch to batch (rows BATCH_*).

``state`` (int64[STATE_WIDTH]): 0 EPOCH of the batch before, -1 none or none of v2; 1 LAST_OFFSET of it, -1 none;
2 FOUND by this call. ``changes``, CHANGE_WIDTH each: the epoch (-1: a message of v0 or v1, which has none), the offset
of its first batch, and the last offset of the epoch before that, -1 none.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_STATE,
        BATCH_WIDTH,
    )
else:
    from kseg.kernel.native import (
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_STATE,
        BATCH_WIDTH,
    )

COMPILED = cython.compiled

STATE_WIDTH, EPOCH, LAST_OFFSET, FOUND, CHANGE_WIDTH = 3, 0, 1, 2, 3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_changes(
    rows: cython.pointer[cython.const[cython.longlong]],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    changes: cython.pointer[cython.longlong],
    room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    epoch: cython.longlong
    for i in range(start, count):
        at = i * BATCH_WIDTH
        if not rows[at + BATCH_STATE] & 1:
            continue
        epoch = rows[at + BATCH_LEADER_EPOCH] if rows[at + BATCH_MAGIC] >= 2 else -1
        if epoch != state[0]:
            if state[2] == room:
                return i
            to = state[2] * 3
            changes[to] = epoch
            changes[to + 1] = rows[at + BATCH_FIRST_OFFSET]
            changes[to + 2] = state[1] if state[0] >= 0 else -1
            state[2] += 1
            state[0] = epoch
        state[1] = rows[at + BATCH_LAST_OFFSET]
    return count


def changes(
    rows: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> int:
    """Writes the changes in rows ``start`` to ``count`` to ``found``.

    Returns the row before which it stopped for want of room, else ``count``.
    """
    done: cython.Py_ssize_t
    state[2] = 0
    if count <= start:
        return start
    if start < 0 or len(rows) < count * BATCH_WIDTH or len(state) < 3 or len(found) < 3:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            done = find_changes(
                cython.address(rows[0]),
                start,
                count,
                cython.address(state[0]),
                cython.address(found[0]),
                found.shape[0] // 3,
            )
    else:
        done = find_changes(rows, start, count, state, found, len(found) // 3)
    return done
