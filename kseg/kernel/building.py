"""Rows of records written as the bytes of a record area (v2) or of a message set (v0, v1): what readers do, backwards.

``state`` (int64[9], in and out):

    0 END, bytes in ``out`` so far           4 LAST_OFFSET, of the record written last
    1 BASE_OFFSET that offsets count from    5 LARGEST_TIMESTAMP in ms, of those written
    2 BASE_TIMESTAMP in ms, that of the      6 LIMIT in bytes: no record but the first goes beyond it
      first record                           7 NEEDED: room in ``out`` that the next record asks for, else 0
    3 COUNT of records written             8 IS_BASE_GIVEN: BASE_TIMESTAMP holds already
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        crc32,
        difference,
        native_setup,
        put_big,
        put_bytes,
        put_varint,
        varint_bytes,
    )
else:
    from kseg.kernel.native import (
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        crc32,
        difference,
        native_setup,
        put_big,
        put_bytes,
        put_varint,
        varint_bytes,
    )

COMPILED = cython.compiled

STATE_WIDTH = 9
END, BASE_OFFSET, BASE_TIMESTAMP, COUNT, LAST_OFFSET, LARGEST_TIMESTAMP, LIMIT, NEEDED, IS_BASE_GIVEN = range(9)
# As a C variable: Cython takes literals of more than 31 bits for Python objects.
LARGEST_DELTA = cython.declare(cython.longlong, 0x7FFFFFFF)

native_setup()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def body_size(
    rows: cython.pointer[cython.const[cython.longlong]],
    row: cython.Py_ssize_t,
    headers: cython.pointer[cython.const[cython.longlong]],
    time_delta: cython.longlong,
    offset_delta: cython.longlong,
) -> cython.longlong:
    """Bytes of a record behind its length."""
    key_size: cython.longlong = rows[row + ROW_KEY_SIZE]
    value_size: cython.longlong = rows[row + ROW_VALUE_SIZE]
    count: cython.longlong = rows[row + ROW_HEADER_COUNT]
    size: cython.longlong = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta)
    h: cython.Py_ssize_t
    k: cython.longlong
    size += varint_bytes(key_size) + varint_bytes(value_size) + varint_bytes(count)
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    for k in range(count):
        h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
        size += varint_bytes(headers[h + HEADER_KEY_SIZE]) + headers[h + HEADER_KEY_SIZE]
        size += varint_bytes(headers[h + HEADER_VALUE_SIZE])
        if headers[h + HEADER_VALUE_SIZE] > 0:
            size += headers[h + HEADER_VALUE_SIZE]
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_records(
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    h: cython.Py_ssize_t
    k: cython.longlong
    o: cython.Py_ssize_t = state[0]
    size: cython.longlong
    time_delta: cython.longlong
    offset_delta: cython.longlong
    timestamp: cython.longlong
    state[7] = 0
    for i in range(first, stop):
        row = i * ROW_WIDTH
        timestamp = rows[row + ROW_TIMESTAMP]
        if state[3] == 0:
            state[5] = timestamp
            if state[8] == 0:
                state[2] = timestamp
        time_delta = difference(timestamp, state[2])
        offset_delta = difference(rows[row + ROW_OFFSET], state[1])
        if offset_delta < 0 or offset_delta > LARGEST_DELTA:
            return i
        size = body_size(rows, row, headers, time_delta, offset_delta)
        if state[3] and o + size + varint_bytes(size) > state[6]:
            return i
        if size + 5 > room - o:
            state[7] = o + size + 5
            return i
        o = put_varint(out, o, size)
        out[o] = 0
        o = put_varint(out, o + 1, time_delta)
        o = put_varint(out, o, offset_delta)
        o = put_varint(out, o, rows[row + ROW_KEY_SIZE])
        o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
        o = put_varint(out, o, rows[row + ROW_VALUE_SIZE])
        o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
        o = put_varint(out, o, rows[row + ROW_HEADER_COUNT])
        for k in range(rows[row + ROW_HEADER_COUNT]):
            h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
            o = put_varint(out, o, headers[h + HEADER_KEY_SIZE])
            o = put_bytes(out, o, p, headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE])
            o = put_varint(out, o, headers[h + HEADER_VALUE_SIZE])
            o = put_bytes(out, o, p, headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE])
        state[0] = o
        state[3] += 1
        state[4] = rows[row + ROW_OFFSET]
        if timestamp > state[5]:
            state[5] = timestamp
    return stop


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_messages(
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    attributes: cython.int,
    base: cython.longlong,
    state: cython.pointer[cython.longlong],
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    o: cython.Py_ssize_t = state[0]
    size: cython.longlong
    timestamp: cython.longlong
    state[7] = 0
    for i in range(first, stop):
        row = i * ROW_WIDTH
        timestamp = rows[row + ROW_TIMESTAMP]
        if state[3] == 0:
            state[2] = timestamp
            state[5] = timestamp
        size = 26 + 8 * magic
        if rows[row + ROW_KEY_SIZE] > 0:
            size += rows[row + ROW_KEY_SIZE]
        if rows[row + ROW_VALUE_SIZE] > 0:
            size += rows[row + ROW_VALUE_SIZE]
        if size - 12 > LARGEST_DELTA or (state[3] and o + size > state[6]):
            return i
        if size > room - o:
            state[7] = o + size
            return i
        start = o
        o = put_big(out, o, difference(rows[row + ROW_OFFSET], base), 8)
        o = put_big(out, o, size - 12, 4) + 4
        out[o] = magic
        out[o + 1] = attributes
        o += 2
        if magic:
            o = put_big(out, o, timestamp, 8)
        o = put_big(out, o, rows[row + ROW_KEY_SIZE], 4)
        o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
        o = put_big(out, o, rows[row + ROW_VALUE_SIZE], 4)
        o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
        put_big(out, start + 12, crc32(0, out, start + 16, o), 4)
        state[0] = o
        state[3] += 1
        state[4] = rows[row + ROW_OFFSET]
        if timestamp > state[5]:
            state[5] = timestamp
    return stop


def add_records(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.longlong[::1],
    out: cython.uchar[::1],
) -> int:
    """Appends the rows ``first`` to ``stop`` (ROW_*, their bytes in ``payload``) to ``out`` as records of a v2 batch.

    Returns the row before which it stopped: ``stop``, or one that goes beyond the limit, whose offset does not fit a
    batch of this base offset, or that needs more room.
    """
    done: cython.Py_ssize_t
    check(rows, first, stop, state, out)
    if first == stop:
        return stop
    if cython.compiled:
        with cython.nogil:
            done = write_records(
                cython.address(payload[0]) if payload.shape[0] else cython.NULL,
                cython.address(rows[0]),
                cython.address(headers[0]),
                first,
                stop,
                cython.address(state[0]),
                cython.address(out[0]),
                out.shape[0],
            )
        return done
    else:
        return write_records(payload, rows, headers, first, stop, state, out, len(out))


def add_messages(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    attributes: cython.int,
    base: cython.longlong,
    state: cython.longlong[::1],
    out: cython.uchar[::1],
) -> int:
    """As `add_records`, as messages of magic 0 or 1 with these attributes; ``base`` is taken off their offsets."""
    done: cython.Py_ssize_t
    check(rows, first, stop, state, out)
    if magic not in (0, 1):
        raise ValueError("no such magic")
    if first == stop:
        return stop
    if cython.compiled:
        with cython.nogil:
            done = write_messages(
                cython.address(payload[0]) if payload.shape[0] else cython.NULL,
                cython.address(rows[0]),
                first,
                stop,
                magic,
                attributes,
                base,
                cython.address(state[0]),
                cython.address(out[0]),
                out.shape[0],
            )
        return done
    else:
        return write_messages(payload, rows, first, stop, magic, attributes, base, state, out, len(out))


def check(rows, first, stop, state, out):
    """ValueError unless there are such rows and such a place in ``out``."""
    if (
        not 0 <= first <= stop <= len(rows) // ROW_WIDTH
        or len(state) < STATE_WIDTH
        or len(out) == 0
        or not 0 <= state[END] <= len(out)
    ):
        raise ValueError("no such rows, or no such place in out")
