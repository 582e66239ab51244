"""Records of a v2 batch: one walk that checks every length and writes rows (`kseg.kernel.native` tells their layout).

A record, behind its own length as a zigzag varint (Kafka's DefaultRecord, KIP-98):

    attributes int8 | timestampDelta varlong | offsetDelta varint | keyLength varint | key | valueLength varint | value
    | headerCount varint | headerCount x (keyLength varint, key, valueLength varint, value)

Any negative key or value length is null, as Kafka reads it. Over-long varints are accepted, those of more than 5 bytes
(10 for the varlong) are not.

``batch`` (int64[8], in) tells the walk what the batch header says, BATCH_*:

    0 COUNT  1 BASE_OFFSET  2 BASE_TIMESTAMP ms  3 MAX_TIMESTAMP ms  4 LOG_APPEND (0 or 1)
    5 BASE_SEQUENCE  6 LAST_OFFSET_DELTA

``cursor`` (int64[8], in and out) is where the walk stands, CURSOR_*:

    0 INDEX of the next record      1 POSITION of its first byte
    2 ROWS written by this call     3 HEADERS, rows of headers written by it
    4 FLAGS, what is odd but can be read: FLAG_*
    5 LAST_DELTA, the last offset delta seen (start with -1)
    6 LARGEST_TIMESTAMP in ms seen (start with the smallest int64)
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

from kseg.limits import MAX_HEADERS

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        FIELD_AFTER,
        FIELD_ATTRIBUTES,
        FIELD_HEADER_COUNT,
        FIELD_HEADERS,
        FIELD_KEY,
        FIELD_KEY_SIZE,
        FIELD_OFFSET_DELTA,
        FIELD_TIMESTAMP_DELTA,
        FIELD_VALUE,
        FIELD_VALUE_SIZE,
        FIELD_WIDTH,
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
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
        varint,
    )
    from cython.cimports.kseg.kernel.short_record import pass_short_records, read_short_record
else:
    from kseg.kernel.native import (
        FIELD_AFTER,
        FIELD_ATTRIBUTES,
        FIELD_HEADER_COUNT,
        FIELD_HEADERS,
        FIELD_KEY,
        FIELD_KEY_SIZE,
        FIELD_OFFSET_DELTA,
        FIELD_TIMESTAMP_DELTA,
        FIELD_VALUE,
        FIELD_VALUE_SIZE,
        FIELD_WIDTH,
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
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
        varint,
    )

COMPILED = cython.compiled

COMPLETE, MORE, TOO_MANY_HEADERS = 0, 1, 14
REASONS = {
    2: "the length of a record is no varint",
    3: "the length of a record does not fit the batch",
    4: "a timestamp delta is no varlong",
    5: "an offset delta is no varint",
    6: "a key length is no varint or does not fit the record",
    7: "a value length is no varint or does not fit the record",
    8: "a header count is no varint or does not fit the record",
    9: "a header key does not fit the record",
    10: "a header value does not fit the record",
    11: "a record is longer than its fields",
    12: "bytes are left after the last record",
    13: "the record count is negative",
    14: f"a record has more than {MAX_HEADERS} headers, which kseg does not read",
}
_MOST_HEADERS = cython.declare(cython.longlong, MAX_HEADERS)
FLAG_NOT_RISING, FLAG_OUT_OF_RANGE, FLAG_ATTRIBUTES, FLAG_NULL_KEY = 1, 2, 4, 8


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varlong_size(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Bytes of the varlong at i; 0 where there is none of at most 10 bytes before end."""
    used: cython.Py_ssize_t = 0
    while used < 10 and i + used < end:
        used += 1
        if p[i + used - 1] < 128:
            return used
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varlong(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    value: cython.ulonglong = 0
    k: cython.Py_ssize_t
    if size == 1:
        value = p[i]
        return cython.cast(cython.longlong, (value >> 1) ^ (0 - (value & 1)))
    for k in range(size):
        value |= cython.cast(cython.ulonglong, p[i + k] & 127) << (7 * k)
    if cython.compiled:
        return cython.cast(cython.longlong, (value >> 1) ^ (0 - (value & 1)))
    else:
        value &= 0xFFFFFFFFFFFFFFFF
        return (value >> 1) ^ -(value & 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def wrapping_sum(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b modulo 2^64, as Java adds longs."""
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b))
    else:
        return (a + b + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_sized(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    after: cython.Py_ssize_t,
    fields: cython.pointer[cython.longlong],
    field: cython.int,
) -> cython.Py_ssize_t:
    """Writes where the bytes of a key or value lie whose size is at i, and behind that the size; the position behind
    them, -1 where they do not fit."""
    r: cython.longlong = varint(p, i, after)
    size: cython.longlong = r >> 4
    i += r & 15
    if r == 0 or size > after - i:
        return -1
    fields[field] = i
    fields[field + 1] = size
    return i + size if size > 0 else i


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_fields(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    fields: cython.pointer[cython.longlong],
) -> cython.int:
    """Writes the FIELD_* of the record at i up to its headers, whatever its shape: 0, or a key of REASONS."""
    at: cython.Py_ssize_t
    after: cython.Py_ssize_t
    used: cython.Py_ssize_t
    size: cython.longlong
    r: cython.longlong = varint(p, i, end)
    if r == 0:
        return 2
    used = r & 15
    size = r >> 4
    if size < 6 or size > end - i - used:
        return 3
    at = i + used
    after = at + size
    fields[FIELD_AFTER] = after
    fields[FIELD_ATTRIBUTES] = p[at]
    at += 1
    used = varlong_size(p, at, after)
    if used == 0:
        return 4
    fields[FIELD_TIMESTAMP_DELTA] = varlong(p, at, used)
    at += used
    r = varint(p, at, after)
    if r == 0:
        return 5
    fields[FIELD_OFFSET_DELTA] = r >> 4
    at += r & 15
    at = read_sized(p, at, after, fields, FIELD_KEY)
    if at < 0:
        return 6
    at = read_sized(p, at, after, fields, FIELD_VALUE)
    if at < 0:
        return 7
    r = varint(p, at, after)
    at += r & 15
    size = r >> 4
    if r == 0 or size < 0 or size > after - at:
        return 8
    fields[FIELD_HEADERS] = at
    fields[FIELD_HEADER_COUNT] = size
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def read_headers(
    p: cython.pointer[cython.const[cython.uchar]],
    i: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    headers: cython.pointer[cython.longlong],
    first: cython.longlong,
    store: cython.bint,
) -> cython.Py_ssize_t:
    """Walks count headers from i; the position behind them, or -status."""
    r: cython.longlong
    size: cython.longlong
    k: cython.longlong
    h: cython.longlong
    for k in range(count):
        r = varint(p, i, end)
        if r == 0:
            return -9
        i += r & 15
        size = r >> 4
        if size < 0 or size > end - i:
            return -9
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_KEY] = i
            headers[h + HEADER_KEY_SIZE] = size
        i += size
        r = varint(p, i, end)
        if r == 0:
            return -10
        i += r & 15
        size = r >> 4
        if size > end - i:
            return -10
        if size < 0:
            size = -1
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_VALUE] = i
            headers[h + HEADER_VALUE_SIZE] = size
        if size > 0:
            i += size
    return i


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_records(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    batch: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
) -> cython.int:
    """Walks records from the cursor to ``end``, writing rows while there is room; capacity 0 means: check only.

    A negative ``header_capacity``: rows of headers are not wanted.

    COMPLETE, MORE (room is used up: call again) or a key of REASONS; the cursor then stands at the record concerned.
    """
    i: cython.Py_ssize_t = cursor[1]
    after: cython.Py_ssize_t
    used: cython.Py_ssize_t
    k: cython.longlong = cursor[0]
    count: cython.longlong = batch[0]
    base_offset: cython.longlong = batch[1]
    base_timestamp: cython.longlong = batch[2]
    append_time: cython.longlong = batch[3]
    is_append_time: cython.bint = batch[4] != 0
    base_sequence: cython.longlong = batch[5]
    last_delta_allowed: cython.longlong = batch[6]
    fields: cython.longlong[FIELD_WIDTH]
    timestamp: cython.longlong
    delta: cython.longlong
    key_size: cython.longlong
    header_count: cython.longlong
    header_rows: cython.longlong = 0
    n: cython.longlong = 0
    row: cython.longlong
    flags: cython.longlong = cursor[4]
    last_delta: cython.longlong = cursor[5]
    largest: cython.longlong = cursor[6]
    store: cython.bint = row_capacity > 0
    status: cython.int = 0
    if not cython.compiled:
        fields = [0] * FIELD_WIDTH
    if count < 0:
        status = 13
        count = k
    while k < count:
        if store and n >= row_capacity:
            status = 1
            break
        after = 0
        header_count = 0
        if cython.compiled:
            after = read_short_record(p, i, end, fields)
        if after == 0:
            status = read_fields(p, i, end, fields)
            if status:
                break
            header_count = fields[FIELD_HEADER_COUNT]
            used = fields[FIELD_HEADERS]
            after = fields[FIELD_AFTER]
            if header_count:
                if header_count > _MOST_HEADERS and header_capacity >= 0:
                    status = 1 if n else 14
                    break
                if store and header_rows + header_count > header_capacity >= 0:
                    status = 1 if n else 14
                    break
                used = read_headers(p, used, after, header_count, headers, header_rows, store and header_capacity >= 0)
                if used < 0:
                    status = -used
                    break
            if used != after:
                status = 11
                break
        timestamp = append_time
        if not is_append_time:
            timestamp = wrapping_sum(base_timestamp, fields[FIELD_TIMESTAMP_DELTA])
        delta = fields[FIELD_OFFSET_DELTA]
        key_size = fields[FIELD_KEY_SIZE]
        if delta <= last_delta:
            flags |= 1
        if delta < 0 or delta > last_delta_allowed:
            flags |= 2
        if fields[FIELD_ATTRIBUTES]:
            flags |= 4
        if key_size < 0:
            flags |= 8
        last_delta = delta
        if timestamp > largest:
            largest = timestamp
        if store:
            row = n * ROW_WIDTH
            rows[row + ROW_OFFSET] = wrapping_sum(base_offset, delta)
            rows[row + ROW_TIMESTAMP] = timestamp
            rows[row + ROW_SEQUENCE] = -1 if base_sequence < 0 else (base_sequence + delta) & 0x7FFFFFFF
            if delta < 0 <= base_sequence and base_sequence + delta >= 0:
                # Kafka's incrementSequence overflows here. (2^31 in one literal would be a Python object.)
                rows[row + ROW_SEQUENCE] = base_sequence + delta - 0x7FFFFFFF - 1
            rows[row + ROW_KEY] = fields[FIELD_KEY]
            rows[row + ROW_KEY_SIZE] = key_size if key_size >= 0 else -1
            rows[row + ROW_VALUE] = fields[FIELD_VALUE]
            rows[row + ROW_VALUE_SIZE] = fields[FIELD_VALUE_SIZE] if fields[FIELD_VALUE_SIZE] >= 0 else -1
            rows[row + ROW_HEADERS] = header_rows
            rows[row + ROW_HEADER_COUNT] = header_count
            rows[row + ROW_CHECK] = 0
            n += 1
        header_rows += header_count
        i = after
        k += 1
    if status == 0 and batch[0] > 0 and i != end:
        status = 12
    cursor[0] = k
    cursor[1] = i
    cursor[2] = n
    cursor[3] = header_rows
    cursor[4] = flags
    cursor[5] = last_delta
    cursor[6] = largest
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pass_records(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    batch: cython.pointer[cython.const[cython.longlong]],
) -> cython.int:
    """`read_records` that keeps nothing but what the cursor tells."""
    if cython.compiled:
        pass_short_records(p, end, cursor, batch)
        if cursor[0] == batch[0] and cursor[1] == end:
            return 0
    return read_records(p, end, cursor, batch, cython.NULL, 0, cython.NULL, 0)


def read(
    payload: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    cursor: cython.longlong[::1],
    batch: cython.const[cython.longlong][::1],
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
) -> int:
    """`read_records` over any buffer; ``rows`` and ``headers`` hold int64, their lengths say how much room there is.

    One row of room in ``rows`` is the least; use `check` to walk without rows.
    """
    status: cython.int
    if cython.compiled:
        if end > len(payload) or len(cursor) < 8 or len(batch) < 8 or len(rows) < ROW_WIDTH:
            raise ValueError("a buffer is too short")
        if len(payload) == 0:
            return 13 if batch[0] < 0 else 2 if batch[0] else 0
        with cython.nogil:
            status = read_records(
                cython.address(payload[0]),
                end,
                cython.address(cursor[0]),
                cython.address(batch[0]),
                cython.address(rows[0]),
                rows.shape[0] // ROW_WIDTH,
                cython.address(headers[0]),
                headers.shape[0] // HEADER_WIDTH,
            )
        return status
    else:
        return read_records(
            payload, end, cursor, batch, rows, len(rows) // ROW_WIDTH, headers, len(headers) // HEADER_WIDTH
        )


def check(
    payload: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    cursor: cython.longlong[::1],
    batch: cython.const[cython.longlong][::1],
) -> int:
    """`read_records` to the end of the batch, writing no rows."""
    status: cython.int
    if cython.compiled:
        if end > len(payload) or len(cursor) < 8 or len(batch) < 8:
            raise ValueError("a buffer is too short")
        if len(payload) == 0:
            return 13 if batch[0] < 0 else 2 if batch[0] else 0
        with cython.nogil:
            status = pass_records(cython.address(payload[0]), end, cython.address(cursor[0]), cython.address(batch[0]))
        return status
    else:
        return pass_records(payload, end, cursor, batch)
