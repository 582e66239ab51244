"""Reads the records of a v2 batch: checks every length and writes rows (ROW_* of `kseg.kernel.layout.rows`).

A record, behind its own length as a zigzag varint (Kafka's DefaultRecord, KIP-98):

    attributes int8 | timestampDelta varlong | offsetDelta varint | keyLength varint | key | valueLength varint | value
    | headerCount varint | headerCount x (keyLength varint, key, valueLength varint, value)

Any negative key or value length is null, as Kafka reads it. Over-long varints are accepted, those of more than 5 bytes
(10 for the varlong) are not.
"""

import cython
from cython import Py_ssize_t, bint, longlong, pointer, ulonglong, void

from kseg.limits import MAX_HEADERS

if not cython.compiled:  # kseg._build declares these constants for C
    # Irregularities of well-formed records.
    FLAG_NOT_RISING = 1
    FLAG_OUT_OF_RANGE = 2
    FLAG_ATTRIBUTES = 4
    FLAG_NULL_KEY = 8

    RecordFields = cython.struct()
    RecordsHeader = cython.struct()
    RecordCursor = cython.struct()
    RecordTable = cython.struct()

REASONS = {
    BAD_LENGTH: "the length of a record is no varint",
    TOO_LONG: "the length of a record does not fit the batch",
    BAD_TIMESTAMP: "a timestamp delta is no varlong",
    BAD_OFFSET: "an offset delta is no varint",
    BAD_KEY: "a key length is no varint or does not fit the record",
    BAD_VALUE: "a value length is no varint or does not fit the record",
    BAD_HEADER_COUNT: "a header count is no varint or does not fit the record",
    BAD_HEADER_KEY: "a header key does not fit the record",
    BAD_HEADER_VALUE: "a header value does not fit the record",
    TOO_SHORT_FIELDS: "a record is longer than its fields",
    BYTES_LEFT: "bytes are left after the last record",
    NEGATIVE_COUNT: "the record count is negative",
    MORE_HEADERS: f"a record has more than {MAX_HEADERS} headers, which kseg does not read",
}


def read_varlong(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, fields: pointer[RecordFields]) -> Py_ssize_t:
    """Reads the timestamp delta at i. Returns its size; 0 if it does not end within 10 bytes or before end."""
    value: ulonglong = 0
    for k in range(min(end - i, 10)):
        value |= cython.cast(ulonglong, cython.cast(ulonglong, p[i + k] & 127) << (7 * k))
        if p[i + k] < 128:
            fields.timestamp_delta = cython.cast(longlong, (value >> 1) ^ (0 - (value & 1)))
            return k + 1
    return 0


def fitting_size(p: Bytes, i: Py_ssize_t, after: Py_ssize_t) -> longlong:
    """Returns the size of a key or value at i in the form of `varint`; 0 if its bytes do not fit before ``after``."""
    r: longlong = varint(p, i, after)
    return r if r >> VARINT_VALUE_SHIFT <= after - i - (r & VARINT_LENGTH_MASK) else 0


def read_fields(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, fields: pointer[RecordFields]) -> cython.int:
    """Reads the fields of the record at i up to its headers, whatever its shape: DONE, or a key of REASONS."""
    r: longlong = varint(p, i, end)
    if r == 0:
        return BAD_LENGTH
    used = r & VARINT_LENGTH_MASK
    size = r >> VARINT_VALUE_SHIFT
    if size < 6 or size > end - i - used:
        return TOO_LONG
    at = i + used
    after = at + size
    fields.after = after
    fields.attributes = p[at]
    at += 1
    used = read_varlong(p, at, after, fields)
    if used == 0:
        return BAD_TIMESTAMP
    at += used
    r = varint(p, at, after)
    if r == 0:
        return BAD_OFFSET
    fields.offset_delta = r >> VARINT_VALUE_SHIFT
    at += r & VARINT_LENGTH_MASK
    r = fitting_size(p, at, after)
    if r == 0:
        return BAD_KEY
    at += r & VARINT_LENGTH_MASK
    fields.key = at
    fields.key_size = r >> VARINT_VALUE_SHIFT
    if fields.key_size > 0:
        at += fields.key_size
    r = fitting_size(p, at, after)
    if r == 0:
        return BAD_VALUE
    at += r & VARINT_LENGTH_MASK
    fields.value = at
    fields.value_size = r >> VARINT_VALUE_SHIFT
    if fields.value_size > 0:
        at += fields.value_size
    r = varint(p, at, after)
    at += r & VARINT_LENGTH_MASK
    size = r >> VARINT_VALUE_SHIFT
    if r == 0 or size < 0 or size > after - at:
        return BAD_HEADER_COUNT
    fields.headers = at
    fields.header_count = size
    return DONE


def read_headers(
    p: Bytes, i: Py_ssize_t, end: Py_ssize_t, count: longlong, headers: OutColumns, first: longlong, store: bint
) -> Py_ssize_t:
    """Reads ``count`` headers at i. Returns the position behind them or -status. ``store``: add rows at ``first``."""
    for k in range(count):
        r = varint(p, i, end)
        if r == 0:
            return -BAD_HEADER_KEY
        i += r & VARINT_LENGTH_MASK
        size = r >> VARINT_VALUE_SHIFT
        if size < 0 or size > end - i:
            return -BAD_HEADER_KEY
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_KEY] = i
            headers[h + HEADER_KEY_SIZE] = size
        i += size
        r = varint(p, i, end)
        if r == 0:
            return -BAD_HEADER_VALUE
        i += r & VARINT_LENGTH_MASK
        size = r >> VARINT_VALUE_SHIFT
        if size > end - i:
            return -BAD_HEADER_VALUE
        size = max(size, -1)
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_VALUE] = i
            headers[h + HEADER_VALUE_SIZE] = size
        i += max(size, 0)
    return i


def content_bytes(rows: Columns, row: Py_ssize_t) -> longlong:
    """Returns the size of key and value of a record, whose columns begin at ``row``."""
    return max(rows[row + ROW_KEY_SIZE], 0) + max(rows[row + ROW_VALUE_SIZE], 0)


def header_bytes(headers: Columns, first: longlong, count: longlong) -> longlong:
    """Returns the size of keys and values of ``count`` headers from row ``first`` on."""
    size: longlong = 0
    for k in range(first, first + count):
        h = k * HEADER_WIDTH
        size += headers[h + HEADER_KEY_SIZE] + max(headers[h + HEADER_VALUE_SIZE], 0)
    return size


_MAX_HEADERS = cython.declare(longlong, MAX_HEADERS)


def increment_sequence(sequence: longlong, delta: longlong) -> longlong:
    """Returns the sequence ``delta`` after another; 2147483647 is followed by 0.

    The int arithmetic of Kafka's DefaultRecordBatch.incrementSequence, overflows of hostile values included.
    """
    if sequence > cython.cast(cython.int, INT32_MAX - delta):
        return cython.cast(cython.int, delta - (INT32_MAX - sequence) - 1)
    return cython.cast(cython.int, sequence + delta)


def sequence_after(base, delta):
    """Returns the sequence ``delta`` after ``base``, -1 if there is none."""
    return -1 if base == -1 else increment_sequence(base, delta)


def read_records_header(p: Bytes, at: Py_ssize_t, header: pointer[RecordsHeader]) -> void:
    """Reads the fields of the v2 batch header at p[at] that a walk over its records needs."""
    header.count = be32(p, at + V2_COUNT)
    header.base_offset = be64(p, at + V2_BASE_OFFSET)
    header.base_timestamp = be64(p, at + V2_BASE_TIMESTAMP)
    header.max_timestamp = be64(p, at + V2_MAX_TIMESTAMP)
    header.is_append_time = (p[at + V2_FLAGS] >> LOG_APPEND_SHIFT) & 1
    header.base_sequence = be32(p, at + V2_BASE_SEQUENCE)
    header.last_offset_delta = be32(p, at + V2_LAST_OFFSET_DELTA)


def begin_records(cursor: pointer[RecordCursor], position: Py_ssize_t, largest_timestamp: longlong) -> void:
    """Sets a cursor to the first record of a batch."""
    cursor.index = 0
    cursor.position = position
    cursor.flags = 0
    cursor.last_delta = -1
    cursor.largest_timestamp = largest_timestamp


def append_row(
    fields: pointer[RecordFields], timestamp: longlong, header: pointer[RecordsHeader], table: pointer[RecordTable]
) -> void:
    rows: OutColumns = table.rows
    row: Py_ssize_t = table.row_count * ROW_WIDTH
    delta: longlong = fields.offset_delta
    rows[row + ROW_OFFSET] = sum_of(header.base_offset, delta)
    rows[row + ROW_TIMESTAMP] = timestamp
    rows[row + ROW_SEQUENCE] = increment_sequence(header.base_sequence, delta) if header.base_sequence >= 0 else -1
    rows[row + ROW_KEY] = fields.key
    rows[row + ROW_KEY_SIZE] = fields.key_size if fields.key_size >= 0 else -1
    rows[row + ROW_VALUE] = fields.value
    rows[row + ROW_VALUE_SIZE] = fields.value_size if fields.value_size >= 0 else -1
    if table.header_capacity >= 0:
        rows[row + ROW_HEADERS] = table.header_count
        rows[row + ROW_HEADER_COUNT] = fields.header_count
        rows[row + ROW_CHECK] = 0
    else:
        rows[row + ROW_HEADERS] = fields.value + (fields.value_size if fields.value_size > 0 else 0)
        rows[row + ROW_HEADER_COUNT] = -1
        rows[row + ROW_CHECK] = fields.after
    table.row_count += 1
    table.header_count += fields.header_count


def append_records(
    p: Bytes, end: Py_ssize_t, cursor: pointer[RecordCursor], header: pointer[RecordsHeader],
    table: pointer[RecordTable],
) -> cython.int:  # fmt: skip
    """Reads records from the cursor to ``end``, and appends rows until they are full; without rows it only checks.

    Returns DONE, FULL (the rows are full: call again) or a key of REASONS; the cursor is at the record concerned.
    """
    first: Py_ssize_t = table.row_count
    has_rows: bint = table.row_capacity > 0
    at: Py_ssize_t
    fields = cython.declare(RecordFields)
    if header.count < 0:
        return NEGATIVE_COUNT
    while cursor.index < header.count:
        if table.row_count >= table.row_capacity > 0:
            return FULL
        status = read_fields(p, cursor.position, end, cython.address(fields))
        if status != DONE:
            return status
        at = fields.headers
        count = fields.header_count
        if count:
            if table.header_capacity >= 0 and (
                count > _MAX_HEADERS or (has_rows and table.header_count + count > table.header_capacity)
            ):
                return FULL if table.row_count > first else MORE_HEADERS
            at = read_headers(
                p, at, fields.after, count, table.headers, table.header_count, has_rows and table.header_capacity >= 0
            )
            if at < 0:
                return cython.cast(cython.int, -at)
        if at != fields.after:
            return TOO_SHORT_FIELDS
        timestamp = header.max_timestamp
        if not header.is_append_time:
            timestamp = sum_of(header.base_timestamp, fields.timestamp_delta)
        delta = fields.offset_delta
        if delta <= cursor.last_delta:
            cursor.flags |= FLAG_NOT_RISING
        if delta < 0 or delta > header.last_offset_delta:
            cursor.flags |= FLAG_OUT_OF_RANGE
        if fields.attributes:
            cursor.flags |= FLAG_ATTRIBUTES
        if fields.key_size < 0:
            cursor.flags |= FLAG_NULL_KEY
        cursor.last_delta = delta
        if timestamp > cursor.largest_timestamp:
            cursor.largest_timestamp = timestamp
        cursor.position = fields.after
        cursor.index += 1
        if has_rows:
            append_row(cython.address(fields), timestamp, header, table)
    return BYTES_LEFT if header.count > 0 and cursor.position != end else DONE


def walk_records(
    p: Bytes, end: Py_ssize_t, cursor: pointer[RecordCursor], header: pointer[RecordsHeader]
) -> cython.int:
    """`append_records` without rows: only checks, and sets the flags of the cursor."""
    table = cython.declare(RecordTable)
    table.rows = table.headers = cython.NULL
    table.row_capacity = table.row_count = table.header_capacity = table.header_count = 0
    return append_records(p, end, cursor, header, cython.address(table))


# A walk over the records of a v2 batch, for callers in Python.


class RecordWalk:
    """A walk over the records of one v2 batch, of which ``data`` begins with the header; ``position`` of the first.

    ``index`` of the next record, from 0, and its ``position`` in its payload. ``row_count`` and ``header_count``: rows
    written by the last `read`. ``flags``: FLAG_* of all records so far, ``largest_timestamp``: of these.
    """

    def __init__(self, data: BytesIn, position=0):
        if not cython.compiled:
            self.header, self.cursor, self.table = RecordsHeader(), RecordCursor(), RecordTable()
        read_records_header(bytes_in(data, V2_HEADER_BYTES), 0, cython.address(self.header))
        begin_records(cython.address(self.cursor), position, -1)
        self._show(DONE)

    def _show(self, status) -> int:
        self.index, self.position = self.cursor.index, self.cursor.position
        self.row_count, self.header_count = self.table.row_count, self.table.header_count
        self.flags, self.largest_timestamp = self.cursor.flags, self.cursor.largest_timestamp
        return status

    def read(self, payload: BytesIn, rows: Int64sOut = None, headers: Int64sOut = None) -> int:
        """`append_records` for int64 buffers ``rows`` and ``headers``; without them it checks the rest of the batch.

        Raises ValueError if no row fits.
        """
        if rows is not None and len(rows) < ROW_WIDTH:
            raise ValueError("a buffer is too short")
        self.table.row_capacity = self.table.row_count = self.table.header_capacity = self.table.header_count = 0
        if rows is not None:
            self.table.rows, self.table.row_capacity = int64s_out(rows), len(rows) // ROW_WIDTH
            self.table.headers, self.table.header_capacity = int64s_out(headers), len(headers) // HEADER_WIDTH
        p = bytes_in(payload)
        end: Py_ssize_t = len(payload)
        with cython.nogil:
            status = append_records(
                p, end, cython.address(self.cursor), cython.address(self.header), cython.address(self.table)
            )
        return self._show(status)
