"""Applies a batch to the entry of its producer: steps of `kseg.kernel.state.producers`."""

import cython
from cython.cimports.kseg.kernel.layout.headers import LOG_APPEND_TIME, TRANSACTIONAL
from cython.cimports.kseg.kernel.layout.rows import (
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
from cython.cimports.kseg.kernel.records.plain import sequence_after
from cython.cimports.kseg.kernel.scan.events import report
from cython.cimports.kseg.kernel.state.producer_table import (
    ABORT_FILLED,
    ABORT_FIRST,
    ABORT_IS_CERTAIN,
    ABORT_MARKER,
    ABORT_OFFSET,
    ABORT_POSITION,
    ABORT_PRODUCER,
    ABORT_STABLE,
    ABORT_WIDTH,
    COORDINATOR_EPOCH,
    COORDINATOR_FALLS,
    DATA_TIMESTAMP,
    ENTRY_WIDTH,
    EPOCH,
    EPOCH_FALLS,
    ID,
    LAST_OFFSET,
    LAST_SEQUENCE,
    LOST_MARKER,
    OFFSET_DELTA,
    OUTSIDE,
    SEEN,
    SEQUENCE,
    SHARED,
    TIMESTAMP,
    TXN_BATCHES,
    TXN_BEFORE,
    TXN_BEHIND,
    TXN_FILLED,
    TXN_FIRST,
    TXN_MARKER,
    TXN_POSITION,
    TXN_TIMESTAMP,
    ProducerTable,
    close_transaction,
    open_transaction,
)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_remembered(table: ProducerTable, e: cython.longlong, timestamp: cython.longlong) -> cython.bint:
    """Whether all is known of the producer since its batch before, and a broker has not forgotten it for being idle."""
    entries: cython.pointer[cython.longlong] = table.entries
    if entries[e + EPOCH] < 0 or entries[e + SEEN] < table.after_damage:
        return False
    return timestamp < 0 or entries[e + TIMESTAMP] < 0 or timestamp - entries[e + TIMESTAMP] < table.idle_ms


def replay_data(rows, i, table, index):
    entries: cython.pointer[cython.longlong] = table.entries
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    e: cython.longlong = index * ENTRY_WIDTH
    first: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: cython.longlong = rows[at + BATCH_PRODUCER_EPOCH]
    sequence: cython.longlong = rows[at + BATCH_BASE_SEQUENCE]
    timestamp: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    delta: cython.longlong = difference(rows[at + BATCH_LAST_OFFSET], first)
    is_transactional: cython.bint = (rows[at + BATCH_ATTRIBUTES] & TRANSACTIONAL) != 0
    expected: cython.longlong = 0
    is_known: cython.bint = not table.as_broker and is_remembered(table, e, timestamp)
    if is_known and epoch < entries[e + EPOCH]:
        report(table, EPOCH_FALLS, i, entries[e + EPOCH], epoch, 0)
    elif is_known and sequence > 0 and epoch != entries[e + EPOCH]:
        report(table, SEQUENCE, i, 0, sequence, entries[e + SEEN] < table.after_hole)
    elif is_known and sequence > 0 and entries[e + LAST_SEQUENCE] >= 0:
        expected = sequence_after(entries[e + LAST_SEQUENCE], 1)
        if sequence != expected and entries[e + LAST_OFFSET] >= table.after_damage:
            report(table, SEQUENCE, i, expected, sequence, entries[e + LAST_OFFSET] < table.after_hole)
    if entries[e + TXN_FIRST] >= table.after_damage and entries[e + TXN_FIRST] >= 0:
        if epoch > entries[e + EPOCH] and not table.as_broker:
            report(table, LOST_MARKER, i, entries[e + TXN_FIRST], entries[e + EPOCH], epoch)
        if not is_transactional:
            report(table, OUTSIDE, i, entries[e + TXN_FIRST], 0, 0)
    entries[e + EPOCH] = epoch
    entries[e + LAST_SEQUENCE] = sequence_after(sequence, delta)
    entries[e + LAST_OFFSET] = rows[at + BATCH_LAST_OFFSET]
    entries[e + OFFSET_DELTA] = delta
    entries[e + TIMESTAMP] = entries[e + DATA_TIMESTAMP] = timestamp
    if is_transactional:
        if entries[e + TXN_FIRST] < 0:
            open_transaction(table, index, first)
            entries[e + TXN_TIMESTAMP] = timestamp
            entries[e + TXN_BATCHES] = entries[e + TXN_FILLED] = 0
            entries[e + TXN_POSITION] = rows[at + BATCH_POSITION]
            entries[e + TXN_MARKER] = -1
        entries[e + TXN_BATCHES] += 1
        if rows[at + BATCH_COUNT] > 0:
            entries[e + TXN_FILLED] += 1


def shares_first_offset(entries, e):
    """Whether another open transaction has the first offset of the entry at ``e``; only neighbours can."""
    before: cython.longlong = entries[e + TXN_BEFORE]
    behind: cython.longlong = entries[e + TXN_BEHIND]
    if before >= 0 and entries[before * ENTRY_WIDTH + TXN_FIRST] == entries[e + TXN_FIRST]:
        return True
    return behind >= 0 and entries[behind * ENTRY_WIDTH + TXN_FIRST] == entries[e + TXN_FIRST]


def add_abort(table, e, stable, rows, at):
    """Writes a row for the ABORT marker at rows[at] of the producer at ``e``. ``stable`` is the last stable offset."""
    row: cython.Py_ssize_t = table.aborts * ABORT_WIDTH
    first: cython.longlong = table.entries[e + TXN_FIRST]
    table.abort_rows[row + ABORT_PRODUCER] = table.entries[e + ID]
    table.abort_rows[row + ABORT_FIRST] = first
    table.abort_rows[row + ABORT_OFFSET] = rows[at + BATCH_FIRST_OFFSET]
    table.abort_rows[row + ABORT_STABLE] = stable
    table.abort_rows[row + ABORT_POSITION] = rows[at + BATCH_POSITION]
    table.abort_rows[row + ABORT_FILLED] = table.entries[e + TXN_FILLED] if first >= 0 else 0
    table.abort_rows[row + ABORT_IS_CERTAIN] = first >= table.after_hole and first >= table.after_damage
    table.aborts += 1


def replay_marker(rows, i, table, index):
    entries: cython.pointer[cython.longlong] = table.entries
    at: cython.Py_ssize_t = i * BATCH_WIDTH
    e: cython.longlong = index * ENTRY_WIDTH
    offset: cython.longlong = rows[at + BATCH_FIRST_OFFSET]
    epoch: cython.longlong = rows[at + BATCH_PRODUCER_EPOCH]
    timestamp: cython.longlong = rows[at + BATCH_MAX_TIMESTAMP]
    other: cython.longlong = table.oldest
    young: cython.longlong = table.youngest
    is_known: cython.bint = not table.as_broker and is_remembered(table, e, timestamp)
    if not rows[at + BATCH_ATTRIBUTES] & LOG_APPEND_TIME:
        timestamp = rows[at + BATCH_BASE_TIMESTAMP]
    if is_known and epoch < entries[e + EPOCH]:
        report(table, EPOCH_FALLS, i, entries[e + EPOCH], epoch, 1)
    if is_known and rows[at + BATCH_COORDINATOR_EPOCH] < entries[e + COORDINATOR_EPOCH]:
        report(table, COORDINATOR_FALLS, i, entries[e + COORDINATOR_EPOCH], rows[at + BATCH_COORDINATOR_EPOCH], 0)
    if table.newest_marker < timestamp <= table.now_ms:
        table.newest_marker = timestamp
    while young >= 0 and entries[young * ENTRY_WIDTH + TXN_MARKER] < 0:
        entries[young * ENTRY_WIDTH + TXN_MARKER] = timestamp
        young = entries[young * ENTRY_WIDTH + TXN_BEFORE]
    if rows[at + BATCH_MARKER] == ABORT_MARKER:
        if other == index:
            other = entries[e + TXN_BEHIND]
        add_abort(table, e, entries[other * ENTRY_WIDTH + TXN_FIRST] if other >= 0 else offset + 1, rows, at)
    if entries[e + TXN_FIRST] >= 0:
        if rows[at + BATCH_MARKER] == ABORT_MARKER:
            table.aborted += 1
        else:
            table.committed += 1
        if table.first_ended < 0 or entries[e + TXN_FIRST] < table.first_ended:
            table.first_ended = entries[e + TXN_FIRST]
        if table.as_broker and shares_first_offset(entries, e):
            report(table, SHARED, i, entries[e + TXN_FIRST], 0, 0)
        close_transaction(table, index)
    if epoch != entries[e + EPOCH]:
        entries[e + EPOCH] = epoch
        entries[e + LAST_SEQUENCE] = entries[e + LAST_OFFSET] = entries[e + DATA_TIMESTAMP] = -1
        entries[e + OFFSET_DELTA] = 0
    entries[e + TIMESTAMP] = timestamp
    entries[e + COORDINATOR_EPOCH] = rows[at + BATCH_COORDINATOR_EPOCH]
