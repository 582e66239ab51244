"""Reads the records of a v2 batch: checks every length and writes rows (ROW_* of `kseg.kernel.layout.rows`).

A record, behind its own length as a zigzag varint (Kafka's DefaultRecord, KIP-98):

    attributes int8 | timestampDelta varlong | offsetDelta varint | keyLength varint | key | valueLength varint | value
    | headerCount varint | headerCount x (keyLength varint, key, valueLength varint, value)

Any negative key or value length is null, as Kafka reads it. Over-long varints are accepted, those of more than 5 bytes
(10 for the varlong) are not.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    LOG_APPEND_SHIFT,
    V2_BASE_OFFSET,
    V2_BASE_SEQUENCE,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_FLAGS,
    V2_LAST_OFFSET_DELTA,
    V2_MAX_TIMESTAMP,
)
from cython.cimports.kseg.kernel.layout.rows import (
    INT32_MAX,
    ROW_CHECK,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_SEQUENCE,
    ROW_TIMESTAMP,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    be32,
    be64,
    sum_of,
)
from cython.cimports.kseg.kernel.records.record_fields import (
    BYTES_LEFT,
    COMPLETE,
    MORE,
    NEGATIVE_COUNT,
    TOO_MANY_HEADERS,
    TOO_SHORT_FIELDS,
    RecordFields,
    read_fields,
    read_headers,
)

from kseg.limits import MAX_HEADERS

if cython.compiled:
    from cython.cimports.kseg.kernel.records.record_fields import read_short_record
else:
    from kseg.kernel.layout.rows import v2_fields


_MAX_HEADERS = cython.declare(cython.longlong, MAX_HEADERS)
# C variables, as Cython treats literals of more than 31 bits as Python objects.
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
SIGN_BIT = cython.declare(cython.longlong, 0x80000000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def wrapped_int(value: cython.longlong) -> cython.longlong:
    """Returns an integer as Java's int holds it."""
    return ((value + SIGN_BIT) & LOW_32_BITS) - SIGN_BIT


def increment_sequence(sequence, delta):
    """Returns the sequence ``delta`` after another; 2147483647 is followed by 0.

    The int arithmetic of Kafka's DefaultRecordBatch.incrementSequence, overflows of hostile values included.
    """
    if sequence > wrapped_int(INT32_MAX - delta):
        return wrapped_int(delta - (INT32_MAX - sequence) - 1)
    return wrapped_int(sequence + delta)


def read_records_header(p, at, header):
    """Reads the fields of the v2 batch header at p[at] that a walk over its records needs."""
    if cython.compiled:
        header.count = be32(p, at + V2_COUNT)
        header.base_offset = be64(p, at + V2_BASE_OFFSET)
        header.base_timestamp = be64(p, at + V2_BASE_TIMESTAMP)
        header.max_timestamp = be64(p, at + V2_MAX_TIMESTAMP)
        header.is_append_time = (p[at + V2_FLAGS] >> LOG_APPEND_SHIFT) & 1
        header.base_sequence = be32(p, at + V2_BASE_SEQUENCE)
        header.last_offset_delta = be32(p, at + V2_LAST_OFFSET_DELTA)
    else:
        (
            header.count, header.base_offset, header.base_timestamp, header.max_timestamp, header.is_append_time,
            header.base_sequence, header.last_offset_delta,
        ) = v2_fields(p, at)  # fmt: skip


def begin_records(cursor, position, largest_timestamp):
    """Sets a cursor to the first record of a batch."""
    cursor.index = 0
    cursor.position = position
    cursor.flags = 0
    cursor.last_delta = -1
    cursor.largest_timestamp = largest_timestamp


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_record(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    fields: cython.pointer[RecordFields],
    table: cython.pointer[RecordTable],
) -> cython.Py_ssize_t:
    """Reads the fields of the record at i and appends its headers. Returns the position behind it, or -status."""
    at: cython.Py_ssize_t = 0
    status: cython.int
    count: cython.longlong
    if cython.compiled:
        at = read_short_record(p, i, end, fields)
        if at:
            fields.header_count = 0
            return at
    status = read_fields(p, i, end, fields)
    if status != COMPLETE:
        return -status
    at = fields.headers
    count = fields.header_count
    if count:
        if table.header_capacity >= 0 and (
            count > _MAX_HEADERS or (table.row_capacity > 0 and table.header_count + count > table.header_capacity)
        ):
            return -TOO_MANY_HEADERS
        at = read_headers(
            p, at, fields.after, count, table.headers, table.header_count,
            table.row_capacity > 0 and table.header_capacity >= 0,
        )  # fmt: skip
        if at < 0:
            return at
    return at if at == fields.after else -TOO_SHORT_FIELDS


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def append_row(
    fields: cython.pointer[cython.const[RecordFields]],
    timestamp: cython.longlong,
    header: cython.pointer[cython.const[RecordsHeader]],
    table: cython.pointer[RecordTable],
) -> cython.void:
    rows: cython.pointer[cython.longlong] = table.rows
    row: cython.Py_ssize_t = table.row_count * ROW_WIDTH
    delta: cython.longlong = fields.offset_delta
    rows[row + ROW_OFFSET] = sum_of(header.base_offset, delta)
    rows[row + ROW_TIMESTAMP] = timestamp
    rows[row + ROW_SEQUENCE] = increment_sequence(header.base_sequence, delta) if header.base_sequence >= 0 else -1
    rows[row + ROW_KEY] = fields.key
    rows[row + ROW_KEY_SIZE] = fields.key_size if fields.key_size >= 0 else -1
    rows[row + ROW_VALUE] = fields.value
    rows[row + ROW_VALUE_SIZE] = fields.value_size if fields.value_size >= 0 else -1
    rows[row + ROW_HEADERS] = table.header_count
    rows[row + ROW_HEADER_COUNT] = fields.header_count
    rows[row + ROW_CHECK] = 0
    table.row_count += 1
    table.header_count += fields.header_count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def count_record(
    fields: cython.pointer[cython.const[RecordFields]],
    timestamp: cython.longlong,
    header: cython.pointer[cython.const[RecordsHeader]],
    cursor: cython.pointer[RecordCursor],
) -> cython.void:
    """Adds a record to the flags and the largest timestamp of the cursor, and advances it."""
    delta: cython.longlong = fields.offset_delta
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


def append_records(p, end, cursor, header, table):
    """Reads records from the cursor to ``end``, and appends rows until they are full; without rows it only checks.

    Returns COMPLETE, MORE (the rows are full: call again) or a key of REASONS of record_fields; the cursor is at the
    record concerned.
    """
    fields: RecordFields
    after: cython.Py_ssize_t
    timestamp: cython.longlong
    first: cython.Py_ssize_t = table.row_count
    if not cython.compiled:
        fields = RecordFields()
    if header.count < 0:
        return NEGATIVE_COUNT
    while cursor.index < header.count:
        if table.row_count >= table.row_capacity > 0:
            return MORE
        after = read_record(p, cursor.position, end, cython.address(fields), table)
        if after < 0:
            return MORE if -after == TOO_MANY_HEADERS and table.row_count > first else -after
        fields.after = after
        timestamp = header.max_timestamp
        if not header.is_append_time:
            timestamp = sum_of(header.base_timestamp, fields.timestamp_delta)
        count_record(cython.address(fields), timestamp, header, cursor)
        if table.row_capacity > 0:
            append_row(cython.address(fields), timestamp, header, table)
    return BYTES_LEFT if header.count > 0 and cursor.position != end else COMPLETE


def walk_short_records(p, end, cursor, header):
    """Checks common records (short_record.h) up to the first other one.

    A fast path: flags are collected in the signs of numbers, without branches and writes in the loop.
    """
    fields: RecordFields
    k: cython.longlong = cursor.index
    i: cython.Py_ssize_t = cursor.position
    after: cython.Py_ssize_t
    base: cython.longlong = header.max_timestamp if header.is_append_time else header.base_timestamp
    delta_mask: cython.longlong = 0 if header.is_append_time else -1
    last: cython.longlong = cursor.last_delta
    largest: cython.longlong = cursor.largest_timestamp
    falling: cython.longlong = 0
    outside: cython.longlong = 0
    attributes: cython.longlong = 0
    null: cython.longlong = 0
    delta: cython.longlong
    timestamp: cython.longlong
    if cython.compiled:
        while k < header.count:
            after = read_short_record(p, i, end, cython.address(fields))
            if after == 0:
                break
            delta = fields.offset_delta
            timestamp = sum_of(base, fields.timestamp_delta & delta_mask)
            falling |= delta - last - 1
            outside |= delta | (header.last_offset_delta - delta)
            attributes |= fields.attributes
            null |= fields.key_size
            if timestamp > largest:
                largest = timestamp
            last = delta
            i = after
            k += 1
    cursor.index = k
    cursor.position = i
    cursor.last_delta = last
    cursor.largest_timestamp = largest
    if falling < 0:
        cursor.flags |= FLAG_NOT_RISING
    if outside < 0:
        cursor.flags |= FLAG_OUT_OF_RANGE
    if attributes:
        cursor.flags |= FLAG_ATTRIBUTES
    if null < 0:
        cursor.flags |= FLAG_NULL_KEY


def walk_records(p, end, cursor, header):
    """`append_records` without rows: only checks, and sets the flags of the cursor."""
    table: RecordTable
    if cython.compiled:
        walk_short_records(p, end, cursor, header)
        if cursor.index == header.count and cursor.position == end:
            return COMPLETE
        table.rows = table.headers = cython.NULL
        table.row_capacity = table.row_count = table.header_capacity = table.header_count = 0
    else:
        table = RecordTable()
    return append_records(p, end, cursor, header, cython.address(table))
