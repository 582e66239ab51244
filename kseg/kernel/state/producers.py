"""Replays the producer state of a broker from rows of batch headers (BATCH_*): epochs, sequences, transactions.

The rules are those of ProducerStateManager and ProducerAppendInfo for replicated batches: only a non-transactional
batch inside an open transaction is refused.

With ``as_broker``, checksums and the order of offsets are ignored, as in a broker's own replay: only OUTSIDE and SHARED
events are reported, ``stop`` is ignored, and the replay stops at markers that are not plain (`is_plain_marker`), which
the caller must handle.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import CONTROL, MAGIC_V2
from cython.cimports.kseg.kernel.layout.rows import (
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
    CRC_RIGHT,
)
from cython.cimports.kseg.kernel.scan.events import report
from cython.cimports.kseg.kernel.state.producer_table import (
    ABORT_MARKER,
    BAD_MARKER,
    COMMIT_MARKER,
    ENTRY_WIDTH,
    FIRST_KRAFT_TYPE,
    LAST_KRAFT_TYPE,
    PLAIN_MARKER_BYTES,
    SEEN,
    ProducerTable,
    index_of,
)
from cython.cimports.kseg.kernel.state.producer_updates import replay_data, replay_marker

_MAX_OFFSET = cython.declare(cython.longlong, 1 << 62)


def follow_offsets(table, first, last):
    """Notes gaps in the offsets: the state of producers is uncertain after them."""
    if table.is_after_damage:
        table.is_after_damage = False
        table.after_damage = first if first > table.largest_offset else table.largest_offset + 1
    elif table.largest_offset >= 0 and first != table.largest_offset + 1:
        if first > table.largest_offset:
            table.after_hole = first
        else:
            table.after_damage = table.largest_offset + 1
    if last > table.largest_offset:
        table.largest_offset = last


def pass_over(rows, i, count, table):
    """Skips batches without a producer from row i on, while their offsets continue. Returns the first other row."""
    at: cython.Py_ssize_t
    last: cython.longlong = table.largest_offset
    newest: cython.longlong = table.newest_data
    stop: cython.longlong = _MAX_OFFSET if table.stop < 0 or table.stop > _MAX_OFFSET else table.stop
    if table.as_broker:
        while i < count and rows[i * BATCH_WIDTH + BATCH_PRODUCER_ID] < 0:
            i += 1
        return i
    if table.is_after_damage or last < 0 or last >= _MAX_OFFSET:
        return i
    while i < count:
        at = i * BATCH_WIDTH
        if (
            rows[at + BATCH_PRODUCER_ID] >= 0
            or rows[at + BATCH_FIRST_OFFSET] != last + 1
            or not rows[at + BATCH_STATE] & CRC_RIGHT
            or rows[at + BATCH_MAGIC] < MAGIC_V2
            or rows[at + BATCH_LAST_OFFSET] <= last
            or rows[at + BATCH_LAST_OFFSET] >= stop
            or rows[at + BATCH_ATTRIBUTES] & CONTROL
        ):
            break
        last = rows[at + BATCH_LAST_OFFSET]
        if newest < rows[at + BATCH_MAX_TIMESTAMP] <= table.now_ms:
            newest = rows[at + BATCH_MAX_TIMESTAMP]
        i += 1
    table.largest_offset = last
    table.newest_data = newest
    return i


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_plain_marker(rows: cython.pointer[cython.const[cython.longlong]], at: cython.Py_ssize_t) -> cython.bint:
    """Whether the control batch is intact, and has the form in which brokers write the end of a transaction."""
    return (
        rows[at + BATCH_STATE] & CRC_RIGHT
        and rows[at + BATCH_SIZE] == PLAIN_MARKER_BYTES
        and rows[at + BATCH_COUNT] == 1
        and ABORT_MARKER <= rows[at + BATCH_MARKER] <= COMMIT_MARKER
        and rows[at + BATCH_COORDINATOR_EPOCH] >= 0
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_kraft_type(type_of_marker: cython.longlong) -> cython.bint:
    return FIRST_KRAFT_TYPE <= type_of_marker <= LAST_KRAFT_TYPE


def replay_as_broker(rows, i, table):
    """Replays row i without checks. False if the replay must stop before it."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    index: cython.longlong
    is_control: cython.bint = (rows[at + BATCH_ATTRIBUTES] & CONTROL) != 0
    if rows[at + BATCH_MAGIC] < MAGIC_V2 or rows[at + BATCH_PRODUCER_ID] < 0:
        return True
    if table.aborts >= table.abort_capacity:
        return False
    if is_control and rows[at + BATCH_COUNT] != 0 and not is_plain_marker(rows, at):
        return False
    index = index_of(table, rows[at + BATCH_PRODUCER_ID])
    if index < 0:
        return table.is_full
    if not is_control:
        replay_data(rows, i, table, index)
    elif rows[at + BATCH_COUNT] != 0:
        replay_marker(rows, i, table, index)
    table.entries[index * ENTRY_WIDTH + SEEN] = rows[at + BATCH_LAST_OFFSET]
    return True


def replay_one(rows, i, table):
    """Checks and replays row i. False if the replay must stop before it."""
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    index: cython.longlong = -1
    is_control: cython.bint
    if (
        not rows[at + BATCH_STATE] & CRC_RIGHT
        or not 0 <= rows[at + BATCH_LAST_OFFSET] < _MAX_OFFSET
        or (
            rows[at + BATCH_MAGIC] >= MAGIC_V2
            and not 0 <= rows[at + BATCH_FIRST_OFFSET] <= rows[at + BATCH_LAST_OFFSET]
        )
    ):
        table.is_after_damage = True
        return True
    if table.stop >= 0 and rows[at + BATCH_LAST_OFFSET] >= table.stop:
        return False
    if rows[at + BATCH_MAGIC] < MAGIC_V2:
        follow_offsets(table, table.largest_offset + 1, rows[at + BATCH_LAST_OFFSET])
        return True
    is_control = (rows[at + BATCH_ATTRIBUTES] & CONTROL) != 0
    if not is_control and table.newest_data < rows[at + BATCH_MAX_TIMESTAMP] <= table.now_ms:
        table.newest_data = rows[at + BATCH_MAX_TIMESTAMP]
    if rows[at + BATCH_PRODUCER_ID] < 0:
        # Only KRaft's log has control batches without a producer; their types begin with LEADER_CHANGE.
        if is_control and rows[at + BATCH_COUNT] != 0 and not is_kraft_type(rows[at + BATCH_MARKER]):
            report(table, BAD_MARKER, i, rows[at + BATCH_MARKER], 0, 0)
        follow_offsets(table, rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET])
        return True
    if table.aborts >= table.abort_capacity:
        return False
    # A marker's value ends with the coordinator's epoch; no broker accepts -1.
    if not is_control or (
        ABORT_MARKER <= rows[at + BATCH_MARKER] <= COMMIT_MARKER and rows[at + BATCH_COORDINATOR_EPOCH] >= 0
    ):
        index = index_of(table, rows[at + BATCH_PRODUCER_ID])
        if index < 0 and not table.is_full:
            return False
    elif rows[at + BATCH_COUNT] != 0:
        report(table, BAD_MARKER, i, rows[at + BATCH_MARKER], 0, 0)
    table.batches += 1
    follow_offsets(table, rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET])
    if index < 0:
        return True
    if is_control:
        replay_marker(rows, i, table, index)
    else:
        replay_data(rows, i, table, index)
    table.entries[index * ENTRY_WIDTH + SEEN] = rows[at + BATCH_LAST_OFFSET]
    return True


def replay_rows(rows, start, count, table):
    i: cython.Py_ssize_t = start
    is_done: cython.bint
    while i < count:
        i = pass_over(rows, i, count, table)
        if i < count:
            if table.as_broker:
                is_done = replay_as_broker(rows, i, table)
            else:
                is_done = replay_one(rows, i, table)
            if not is_done:
                return i
            i += 1
    return count


def replay(
    table: ProducerTable, rows: cython.const[cython.longlong][::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> int:
    """Replays rows ``start`` to ``count`` (BATCH_*). Returns the row before which it stopped.

    It stops at ``count``; at the first batch that reaches the offset ``stop``; if the table of aborts is full; if the
    table of producers is full (unless ``is_full`` is set: then other producers are ignored); with ``as_broker`` at a
    marker that is not plain. Events that do not fit are only counted. Raises ValueError if the buffer is too
    short.
    """
    done: cython.Py_ssize_t
    table.events = 0
    table.aborts = 0
    if count <= start:
        return start
    if start < 0 or len(rows) < count * BATCH_WIDTH:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            done = replay_rows(cython.address(rows[0]), start, count, table)
    else:
        done = replay_rows(rows, start, count, table)
    return done
