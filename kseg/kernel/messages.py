"""Messages of the eras before v2: one walk over a message set that writes rows (layout: `kseg.kernel.native`).

An entry of a v0 or v1 set (Kafka's LegacyRecord; 0.8 to 0.10):

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | (v1: timestamp int64) | key | value
    (key and value: int32 size, -1 null, then the bytes; the CRC-32 covers magic to the end)

An entry of a 0.7 set (kafka.message.Message @0.7):

    size int32 | magic int8 | (magic 1: attributes int8) | crc uint32 | payload          (the CRC-32 covers the payload)

``cursor`` (int64[8], in and out): 0 POSITION of the next entry  1 ROWS written by this call  2 COUNT of entries seen
3 LAST_OFFSET as written, of the entry seen last (0.7: where it starts)  4 MISFITS, counted on and on.

``context`` (int64[8], in):

    0 BASE added to offsets     1 KIND of the wrapper's timestamps: 0 none, 1 CreateTime, 2 LogAppendTime,
    2 TIMESTAMP of it in ms       -1 no wrapper, each message tells its own
    3 CHECK CRCs (else all count as right)
    4 MANNER of reading v0 and v1: STRICT, AS_DUMPED or SIZES_ONLY

AS_DUMPED is how kafka-dump-log reads (Kafka's LegacyRecord and AbstractLegacyRecordBatch): negative sizes stay as they
are written, and a message whose magic is not 0 is laid out as v1. With SIZES_ONLY a key or value need not fit its
message either: its size goes to the row, and ``cursor`` 4 counts such rows. Their positions must not be followed.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
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
        crc32,
        native_setup,
    )

    native_setup()
else:
    from kseg.kernel.native import (
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
        crc32,
    )

COMPILED = cython.compiled

END, MORE, COMPRESSED, CUT = 0, 1, 2, 3
STRICT, AS_DUMPED, SIZES_ONLY = 0, 1, 2
# As C variables: Cython takes literals of more than 31 bits for Python objects.
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
VALID = cython.declare(cython.longlong, 0x100000000)
REASONS = {
    4: "the size of a message is smaller than its header",
    5: "a key or value does not fit its message",
    6: "the magic of a message is unknown",
}


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
@cython.nogil
@cython.exceptval(check=False)
def walk(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    context: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t = cursor[0]
    after: cython.Py_ssize_t
    fields: cython.Py_ssize_t
    size: cython.longlong
    key_size: cython.longlong
    value_size: cython.longlong
    kind: cython.longlong
    timestamp: cython.longlong
    check: cython.longlong
    magic: cython.int
    manner: cython.longlong = context[4]
    misfits: cython.longlong = 0
    n: cython.longlong = 0
    row: cython.longlong
    status: cython.int = 0
    while i < end:
        if n >= row_capacity > 0:
            status = 1
            break
        if end - i < 12:
            status = 3
            break
        size = be32(p, i + 8)
        if size < 14:
            status = 4
            break
        if size > end - i - 12:
            status = 3
            break
        magic = p[i + 16]
        if magic > 1 and manner == 0:
            status = 6
            break
        if magic and size < 22:
            status = 4
            break
        after = i + 12 + size
        cursor[3] = be64(p, i)
        if row_capacity > 0:
            if p[i + 17] & 7:
                status = 2
                break
            fields = i + (26 if magic else 18)
            key_size = be32(p, fields)
            fields += 4
            if key_size > after - fields - 4 or after - fields < 4:
                status = 5
                break
            row = n * ROW_WIDTH
            rows[row + ROW_KEY] = fields
            rows[row + ROW_KEY_SIZE] = -1 if key_size < 0 and manner == 0 else key_size
            if key_size > 0:
                fields += key_size
            value_size = be32(p, fields)
            fields += 4
            if value_size > after - fields:
                if manner != 2:
                    status = 5
                    break
                misfits += 1
            kind = 0
            timestamp = -1
            if magic:
                kind = context[1]
                if kind < 0:
                    kind = 2 if p[i + 17] & 8 else 1
                timestamp = context[2] if context[1] == 2 and magic == 1 else be64(p, i + 18)
            check = be32(p, i + 12) & LOW_32_BITS
            if context[3] == 0 or crc32(0, p, i + 16, after) == check:
                check |= VALID
            check |= 2 * kind * VALID
            rows[row + ROW_OFFSET] = wrapping_sum(cursor[3], context[0])
            rows[row + ROW_TIMESTAMP] = timestamp
            rows[row + ROW_SEQUENCE] = -1
            rows[row + ROW_VALUE] = fields
            rows[row + ROW_VALUE_SIZE] = -1 if value_size < 0 and manner == 0 else value_size
            rows[row + ROW_HEADERS] = 0
            rows[row + ROW_HEADER_COUNT] = 0
            rows[row + ROW_CHECK] = check
            n += 1
        cursor[2] += 1
        i = after
    cursor[0] = i
    cursor[1] = n
    cursor[4] += misfits
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def walk_v07(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    context: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
) -> cython.int:
    i: cython.Py_ssize_t = cursor[0]
    after: cython.Py_ssize_t
    payload: cython.Py_ssize_t
    size: cython.longlong
    check: cython.longlong
    magic: cython.int
    n: cython.longlong = 0
    row: cython.longlong
    status: cython.int = 0
    while i < end:
        if n >= row_capacity:
            status = 1
            break
        if end - i < 4:
            status = 3
            break
        size = be32(p, i)
        if size < 5:
            status = 4
            break
        if size > end - i - 4:
            status = 3
            break
        magic = p[i + 4]
        if magic > 1:
            status = 6
            break
        if magic == 1 and size < 6:
            status = 4
            break
        after = i + 4 + size
        cursor[3] = i
        if magic == 1 and p[i + 5] & 3:
            status = 2
            break
        payload = i + 9 + magic
        check = be32(p, payload - 4) & LOW_32_BITS
        if context[3] == 0 or crc32(0, p, payload, after) == check:
            check |= VALID
        row = n * ROW_WIDTH
        rows[row + ROW_OFFSET] = context[0]
        rows[row + ROW_TIMESTAMP] = -1
        rows[row + ROW_SEQUENCE] = -1
        rows[row + ROW_KEY] = 0
        rows[row + ROW_KEY_SIZE] = -1
        rows[row + ROW_VALUE] = payload
        rows[row + ROW_VALUE_SIZE] = after - payload
        rows[row + ROW_HEADERS] = 0
        rows[row + ROW_HEADER_COUNT] = 0
        rows[row + ROW_CHECK] = check
        n += 1
        cursor[2] += 1
        i = after
    cursor[0] = i
    cursor[1] = n
    return status


def read(
    payload: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    cursor: cython.longlong[::1],
    context: cython.const[cython.longlong][::1],
    rows: cython.longlong[::1],
    v07: cython.bint = False,
) -> int:
    """Walks entries from the cursor, writing rows.

    END (nothing is left), MORE (rows are full: call again), COMPRESSED (the entry at the cursor is a wrapper: open it,
    then go on behind it), CUT (the entry at the cursor is cut off by the end) or a key of REASONS.
    """
    status: cython.int
    if cython.compiled:
        if end > len(payload) or len(cursor) < 8 or len(context) < 8 or len(rows) < ROW_WIDTH:
            raise ValueError("a buffer is too short")
        if end <= cursor[0]:
            cursor[1] = 0
            return 0
        with cython.nogil:
            if v07:
                status = walk_v07(
                    cython.address(payload[0]),
                    end,
                    cython.address(cursor[0]),
                    cython.address(context[0]),
                    cython.address(rows[0]),
                    rows.shape[0] // ROW_WIDTH,
                )
            else:
                status = walk(
                    cython.address(payload[0]),
                    end,
                    cython.address(cursor[0]),
                    cython.address(context[0]),
                    cython.address(rows[0]),
                    rows.shape[0] // ROW_WIDTH,
                )
        return status
    else:
        return (walk_v07 if v07 else walk)(payload, end, cursor, context, rows, len(rows) // ROW_WIDTH)


def survey(
    payload: cython.const[cython.uchar][::1],
    end: cython.Py_ssize_t,
    cursor: cython.longlong[::1],
    manner: cython.longlong = 0,
) -> int:
    """Walks a v0 or v1 set without rows, for its COUNT and LAST_OFFSET: a v1 wrapper's offsets hang on them."""
    context: cython.longlong[8]
    status: cython.int
    if cython.compiled:
        if end > len(payload) or len(cursor) < 8:
            raise ValueError("a buffer is too short")
        if end <= cursor[0]:
            return 0
        context[4] = manner
        with cython.nogil:
            status = walk(cython.address(payload[0]), end, cython.address(cursor[0]), context, cython.NULL, 0)
        return status
    else:
        return walk(payload, end, cursor, (0, 0, 0, 0, manner), None, 0)
