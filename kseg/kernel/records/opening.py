"""Reads the records of v2 batches, decompressed if necessary, into rows for loops over records.

`open_batch` finds the bytes, `read_batch` writes a row (ROW_*) for each record. HEADERS and CHECK of a row are the
start and the end of the record's headers, as `kseg.kernel.records.building` needs them.
"""

import cython
from cython.cimports.kseg.kernel.codecs.expand import BUFFER_FULL, expand_batch
from cython.cimports.kseg.kernel.records.records import (
    COMPLETE,
    FLAG_NOT_RISING,
    FLAG_OUT_OF_RANGE,
    MORE,
    RecordCursor,
    RecordsHeader,
    RecordTable,
    append_records,
    begin_records,
    read_records_header,
)

REASONS = {
    NOT_RISING: "offset deltas do not rise",
    OUT_OF_RANGE: "an offset delta is outside the batch",
    TOO_MANY: "it counts more records than it has offsets or bytes",
}


def fill_window(window, data, batches, count, verdicts, rows, expansion, opened):
    """Sets the buffers of a window. Raises ValueError if one is too short for ``count`` batches."""
    if len(batches) < count * BATCH_WIDTH or len(verdicts) < count or len(rows) < ROW_WIDTH:
        raise ValueError("a buffer is too short")
    window.p = bytes_in(data)
    window.batches, window.count, window.verdicts = int64s_in(batches), count, int64s_in(verdicts)
    window.rows, window.row_capacity = int64s_out(rows), len(rows) // ROW_WIDTH
    window.opened_size = -1
    window.reason = 0
    if opened is not None:
        window.opened, window.opened_size = bytes_in(opened), len(opened)
    window.expanded, window.expanded_bytes, window.zstd = bytes_out(expansion.out), expansion.capacity, expansion.zstd
    return 0


def open_batch(window, at):
    """Finds the records of the batch whose row is batches[at]. Returns DONE, or why it cannot."""
    position: cython.Py_ssize_t = window.batches[at + BATCH_POSITION]
    size: cython.Py_ssize_t = window.batches[at + BATCH_SIZE]
    held: cython.Py_ssize_t
    if window.opened_size >= 0:
        window.payload, window.first, window.end = window.opened, 0, window.opened_size
        window.opened_size = -1
    elif not window.p[position + V2_FLAGS] & CODEC:
        window.payload, window.first, window.end = window.p, position + V2_HEADER_BYTES, position + size
    else:
        held = expand_batch(window.p, position, size, window.expanded, window.expanded_bytes, window.zstd)
        if held < 0:
            return NEEDS_BUFFER if held == BUFFER_FULL else NEEDS_OPENING
        window.payload, window.first, window.end = window.expanded, 0, held
    if not 0 <= window.batches[at + BATCH_COUNT] <= (window.end - window.first) // MIN_RECORD_BYTES:
        window.reason = TOO_MANY
        return MALFORMED
    return DONE


def read_batch(window, at):
    """Reads the records of the open batch. Returns DONE or MALFORMED. The rows must suffice for its record count."""
    window.reason = read_rows(window, at)
    return MALFORMED if window.reason else DONE


def read_rows(window, at):
    """Reads rows. Returns 0, or the reason why the records are malformed."""
    header = cython.declare(RecordsHeader)
    cursor = cython.declare(RecordCursor)
    table = cython.declare(RecordTable)
    k: cython.longlong
    row: cython.Py_ssize_t
    status: cython.int = COMPLETE
    read_records_header(window.p, window.batches[at + BATCH_POSITION], cython.address(header))
    if header.count > header.last_offset_delta + 1:
        return TOO_MANY
    header.base_sequence = -1
    begin_records(cython.address(cursor), window.first, 0)
    table.rows, table.row_count, table.header_capacity, table.header_count = window.rows, 0, -1, 0
    for k in range(header.count):
        table.row_capacity = k + 1
        status = append_records(
            window.payload, window.end, cython.address(cursor), cython.address(header), cython.address(table)
        )
        if status != COMPLETE and (status != MORE or table.row_count != k + 1):
            return status
        row = k * ROW_WIDTH
        window.rows[row + ROW_HEADERS] = window.rows[row + ROW_VALUE]
        if window.rows[row + ROW_VALUE_SIZE] > 0:
            window.rows[row + ROW_HEADERS] += window.rows[row + ROW_VALUE_SIZE]
        window.rows[row + ROW_CHECK] = cursor.position
    if cursor.flags & FLAG_NOT_RISING:
        return NOT_RISING
    if cursor.flags & FLAG_OUT_OF_RANGE:
        return OUT_OF_RANGE
    return status
