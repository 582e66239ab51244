"""Finds where the leader epoch changes from batch to batch (rows BATCH_*)."""

import cython
from cython.cimports.kseg.kernel.layout.headers import MAGIC_V2
from cython.cimports.kseg.kernel.layout.rows import (
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_STATE,
    BATCH_WIDTH,
    CRC_RIGHT,
)


class EpochState:
    """The state of the search, kept between calls.

    ``epoch`` and ``last_offset`` of the preceding batch, -1 if none; the epoch of v0 and v1 is -1 too. ``found``:
    changes written by a call.
    """

    def __init__(self):
        self.epoch = self.last_offset = -1
        self.found = 0


def find_changes(rows, start, count, state, changes, capacity):
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    epoch: cython.longlong
    for i in range(start, count):
        at = i * BATCH_WIDTH
        if not rows[at + BATCH_STATE] & CRC_RIGHT:
            continue
        epoch = rows[at + BATCH_LEADER_EPOCH] if rows[at + BATCH_MAGIC] >= MAGIC_V2 else -1
        if epoch != state.epoch:
            if state.found == capacity:
                return i
            to = state.found * CHANGE_WIDTH
            changes[to + CHANGE_EPOCH] = epoch
            changes[to + CHANGE_OFFSET] = rows[at + BATCH_FIRST_OFFSET]
            changes[to + CHANGE_LAST_OFFSET] = state.last_offset if state.epoch >= 0 else -1
            state.found += 1
            state.epoch = epoch
        state.last_offset = rows[at + BATCH_LAST_OFFSET]
    return count


def changes(
    rows: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    state: EpochState,
    found: cython.longlong[::1],
) -> int:
    """Writes the changes in rows ``start`` to ``count`` to ``found`` (CHANGE_*).

    Returns the row before which it stopped because ``found`` is full, else ``count``. Raises ValueError if a buffer is
    too short.
    """
    done: cython.Py_ssize_t
    state.found = 0
    if count <= start:
        return start
    if start < 0 or len(rows) < count * BATCH_WIDTH or len(found) < CHANGE_WIDTH:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            done = find_changes(
                cython.address(rows[0]),
                start,
                count,
                state,
                cython.address(found[0]),
                found.shape[0] // CHANGE_WIDTH,
            )
    else:
        done = find_changes(rows, start, count, state, found, len(found) // CHANGE_WIDTH)
    return done
