"""Batches and records as JSON Lines: one object a line, keys in the order that ``kseg dump --format json`` promises.

Only what JSON requires is escaped. Bytes are a string where they are UTF-8 (strictly: no surrogates, no over-long
forms), else ``{"base64":"..."}``, null where there are none. A field that a format lacks is absent, one that it has but
that is unset is null.

Flags: DEEP prints the records of each batch, CONTENTS their keys, values and header values; BASE64_KEYS and
BASE64_VALUES write the object form whatever the bytes are. ``state`` is that of `kseg.kernel.text`.

``context`` holds what the caller knows of the file, ready to print: the beginning of a batch
(``{"type":"batch","file":"...","position":``), that of a record (``{"type":"record","file":"...","position":``) and
what follows the position of a record (``,"topic":"...","partition":0,"offset":``).
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel import escape
    from cython.cimports.kseg.kernel.batch_lines import put_json_batch, take_context
    from cython.cimports.kseg.kernel.escape import (
        F_BASE64_KEYS,
        F_BASE64_VALUES,
        F_CONTENTS,
        F_DEEP,
        NOT_UTF8,
        Context,
        Counters,
        forget,
        put,
        put_base64,
        put_int,
        put_json,
        put_near,
    )
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_WIDTH,
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
    )
    from cython.cimports.kseg.kernel.plain import enter, has_plain_header, leave, room_for

    escape.shuffle_setup()
else:
    from kseg.kernel.batch_lines import put_json_batch
    from kseg.kernel.escape import F_BASE64_KEYS, F_BASE64_VALUES, F_CONTENTS, F_DEEP, json_value
    from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_WIDTH, HEADER_WIDTH, ROW_WIDTH
    from kseg.kernel.plain import enter, has_plain_header, leave, room_for

    Context = Counters = None

    _KINDS = (b"", b"CreateTime", b"LogAppendTime")

from kseg.kernel.plain import check_buffers, check_rows

COMPILED = cython.compiled

DEEP, CONTENTS, BASE64_KEYS, BASE64_VALUES = 1, 2, 32, 64
DONE, FULL, NOT_PLAIN, TOO_SMALL, TOO_MANY_HEADERS = 0, 1, 2, 3, 4

MARGIN = cython.declare(cython.Py_ssize_t, 1536)
TAIL = cython.declare(cython.Py_ssize_t, 512)


if not cython.compiled:

    def _header_objects(p, headers, first, count, contents):
        for h in range(first * HEADER_WIDTH, (first + count) * HEADER_WIDTH, HEADER_WIDTH):
            key, key_size, value, value_size = headers[h : h + HEADER_WIDTH]
            if contents:
                yield b'{"key":%s,"value":%s}' % (json_value(p, key, key_size), json_value(p, value, value_size))
            else:
                yield b'{"key":%s}' % json_value(p, key, key_size)

    def record_line(p, row, headers, magic, kind, flags, context, position):
        """One record line; row is the ten columns of `kseg.kernel.native`."""
        offset, timestamp, sequence, key, key_size, value, value_size, first, header_count, check = row
        line = b"%s%d%s%d" % (context[1], position, context[2], offset)
        if magic < 2:
            kind = check >> 33 & 3
        if kind:
            line += b',"timestamp":%d,"timestampType":"%s"' % (timestamp, _KINDS[kind])
        if magic >= 2:
            line += b',"sequence":%s' % (b"null" if sequence == -1 else b"%d" % sequence)
        line += b',"keySize":%d,"valueSize":%d' % (key_size, value_size)
        contents = flags & F_CONTENTS
        if magic >= 2:
            objects = b",".join(_header_objects(p, headers, first, header_count, contents)) if header_count else b""
            line += b',"headers":[%s]' % objects
        if contents:
            line += b',"key":%s,"value":%s' % (
                json_value(p, key, key_size, flags & F_BASE64_KEYS),
                json_value(p, value, value_size, flags & F_BASE64_VALUES),
            )
        return line + b"}\n"


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_bytes(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    as_base64: cython.bint,
) -> cython.Py_ssize_t:
    """Null, a string or the object form; negative when there is no room."""
    after: cython.Py_ssize_t = NOT_UTF8
    if size < 0:
        return put(out, o, b"null", 4)
    if not as_base64:
        after = put_json(out, o, limit, p, size)
    if after == NOT_UTF8:
        o = put(out, o, b'{"base64":"', 11)
        after = put_base64(out, o, limit, p, size)
        if after >= 0:
            after = put(out, after, b'"}', 2)
    return after


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_headers(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    row: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    contents: cython.bint,
) -> cython.Py_ssize_t:
    k: cython.longlong
    h: cython.Py_ssize_t = row[ROW_HEADERS] * HEADER_WIDTH
    o = put(out, o, b',"headers":[', 12)
    for k in range(row[ROW_HEADER_COUNT]):
        if k:
            o = put(out, o, b",", 1)
        o = put(out, o, b'{"key":', 7)
        o = put_bytes(out, o, limit, p + headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE], False)
        if o < 0:
            return o
        if contents:
            o = put(out, o, b',"value":', 9)
            o = put_bytes(out, o, limit, p + headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE], False)
            if o < 0:
                return o
        o = put(out, o, b"}", 1)
        h += HEADER_WIDTH
    return put(out, o, b"]", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_kind(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, kind: cython.int) -> cython.Py_ssize_t:
    if kind == 2:
        return put(out, o, b',"timestampType":"LogAppendTime"', 32)
    return put(out, o, b',"timestampType":"CreateTime"', 29)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_fields(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    row: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    magic: cython.int,
    kind: cython.int,
    flags: cython.int,
    counters: cython.pointer[Counters],
) -> cython.Py_ssize_t:
    """A record's fields from its offset on, and the end of its line; negative when there is no room."""
    o = put_near(cython.address(counters.offset), out, o, row[ROW_OFFSET])
    if magic < 2:
        kind = (row[ROW_CHECK] >> 33) & 3
    if kind:
        o = put(out, o, b',"timestamp":', 13)
        o = put_near(cython.address(counters.timestamp), out, o, row[ROW_TIMESTAMP])
        o = put_kind(out, o, kind)
    if magic >= 2:
        o = put(out, o, b',"sequence":', 12)
        if row[ROW_SEQUENCE] == -1:
            o = put(out, o, b"null", 4)
        else:
            o = put_near(cython.address(counters.sequence), out, o, row[ROW_SEQUENCE])
    o = put(out, o, b',"keySize":', 11)
    o = put_int(out, o, row[ROW_KEY_SIZE])
    o = put(out, o, b',"valueSize":', 13)
    o = put_int(out, o, row[ROW_VALUE_SIZE])
    if magic >= 2:
        o = put_headers(out, o, limit, p, row, headers, flags & F_CONTENTS)
        if o < 0:
            return o
    if flags & F_CONTENTS:
        o = put(out, o, b',"key":', 7)
        o = put_bytes(out, o, limit, p + row[ROW_KEY], row[ROW_KEY_SIZE], flags & F_BASE64_KEYS)
        if o < 0:
            return o
        o = put(out, o, b',"value":', 9)
        o = put_bytes(out, o, limit, p + row[ROW_VALUE], row[ROW_VALUE_SIZE], flags & F_BASE64_VALUES)
        if o < 0:
            return o
    return put(out, o, b"}\n", 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_rows(
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    kind: cython.int,
    flags: cython.int,
    context: cython.pointer[cython.const[Context]],
    margin: cython.Py_ssize_t,
    position: cython.longlong,
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Prints rows at out[state[3]] and moves state[3]; returns the first row that found no room, else stop."""
    o: cython.Py_ssize_t = state[3]
    row: cython.Py_ssize_t = first
    after: cython.Py_ssize_t
    counters: Counters
    if cython.compiled:
        forget(cython.address(counters))
        while row < stop and o + margin <= capacity:
            after = put(out, o, context.record, context.record_size)
            after = put_int(out, after, position)
            after = put(out, after, context.partition, context.partition_size)
            after = put_fields(
                out,
                after,
                capacity - TAIL,
                p,
                rows + row * ROW_WIDTH,
                headers,
                magic,
                kind,
                flags,
                cython.address(counters),
            )
            if after < 0:
                break
            o = after
            row += 1
    else:
        while row < stop:
            columns = rows[row * ROW_WIDTH : row * ROW_WIDTH + ROW_WIDTH]
            line = record_line(p, columns, headers, magic, kind, flags, context, position)
            after = o + len(line)
            if after > capacity:
                break
            out[o:after] = line
            o = after
            row += 1
    state[3] = o
    return row


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_batches(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    area: cython.pointer[cython.const[cython.uchar]],
    laid: cython.pointer[cython.const[cython.longlong]],
    stop: cython.Py_ssize_t,
    flags: cython.int,
    context: cython.pointer[cython.const[Context]],
    margin: cython.Py_ssize_t,
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.int:
    """``area``, ``laid``: where records lie, which for those of a compressed batch is not where its line comes from."""
    frame: cython.pointer[cython.const[cython.longlong]]
    opened: cython.pointer[cython.const[cython.longlong]]
    at: cython.Py_ssize_t
    status: cython.int
    written: cython.Py_ssize_t
    position: cython.Py_ssize_t
    kind: cython.int
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    while state[0] < stop:
        at = state[0] * FRAME_WIDTH
        frame = frames + at if cython.compiled else frames[at : at + FRAME_WIDTH]
        opened = laid + at if cython.compiled else laid[at : at + FRAME_WIDTH]
        if not has_plain_header(p, frame):
            return 2
        if flags & F_DEEP:
            status = enter(
                area, opened, state, batch, cursor, rows, row_capacity, headers, header_capacity, capacity - state[3]
            )
            if status > 1:
                state[6] = 2 * header_capacity + 8
                return 4 if status == 14 else 2
        position = frame[FRAME_POSITION]
        if state[2] == 0:
            if state[3] + margin > capacity:
                state[6] = 2 * capacity
                return 1 if state[3] else 3
            state[3] = put_json_batch(out, state[3], p, frame, state[7], context)
            state[4] += 1
            if not flags & F_DEEP:
                state[0] += 1
                continue
            state[1] = 0
            state[2] = opened[FRAME_POSITION] + (61 if frame[FRAME_MAGIC] == 2 else 12)
        kind = 1 + ((p[position + 22] >> 3) & 1) if frame[FRAME_MAGIC] == 2 else 0
        written = put_rows(
            out,
            capacity,
            area,
            rows,
            headers,
            0,
            cursor[2],
            cython.cast(cython.int, frame[FRAME_MAGIC]),
            kind,
            flags,
            context,
            margin,
            position + state[7],
            state,
        )
        if written < cursor[2]:
            state[6] = room_for(rows, written, headers, capacity)
            leave(area, opened, state, batch, cursor, written, rows, headers)
            return 1 if state[3] else 3
        leave(area, opened, state, batch, cursor, written, rows, headers)
    return 0


def json_batches(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    flags: cython.int,
    context: tuple,
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
    area: cython.const[cython.uchar][::1] = None,
    laid: cython.const[cython.longlong][::1] = None,
) -> int:
    """Prints the frames from state[0] up to ``stop`` (a fresh call has state[0] == ``start``) into ``out``.

    Takes and returns what `kseg.kernel.text.text_batches` does. Without DEEP a frame is plain when its header shows no
    problem and its CRC is right; a v0 or v1 wrapper never is, its base offset lies in the compressed set.
    """
    check_buffers(len(buf), frames, start, stop, rows, out, state)
    if laid is None:
        area, laid = buf, frames
    else:
        check_buffers(len(area), laid, start, stop, rows, out, state)
    status: cython.int
    pieces: Context
    margin: cython.Py_ssize_t = MARGIN + sum(map(len, context))
    row_capacity: cython.Py_ssize_t = len(rows) // ROW_WIDTH
    header_capacity: cython.Py_ssize_t = len(headers) // HEADER_WIDTH
    if cython.compiled:
        take_context(cython.address(pieces), context)
        with cython.nogil:
            status = write_batches(
                cython.address(buf[0]),
                cython.address(frames[0]),
                cython.address(area[0]),
                cython.address(laid[0]),
                stop,
                flags,
                cython.address(pieces),
                margin,
                cython.address(rows[0]),
                row_capacity,
                cython.address(headers[0]),
                header_capacity,
                cython.address(out[0]),
                out.shape[0],
                cython.address(state[0]),
            )
        return status
    else:
        room = len(out)
        return write_batches(
            buf, frames, area, laid, stop, flags, context, margin, rows, row_capacity, headers, header_capacity, out,
            room, state,
        )  # fmt: skip


def json_records(
    buf: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    flags: cython.int,
    context: tuple,
    position: cython.longlong,
    timestamp_kind: cython.int,
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Prints rows ``first`` up to ``stop``, whose positions count from the start of ``buf``; state[1] is then the next.

    ``position`` is the batch's in its file, ``timestamp_kind`` 1 for CreateTime, 2 for LogAppendTime (v0 and v1 rows
    tell theirs). Returns what `kseg.kernel.text.text_records` returns.
    """
    check_rows(rows, first, stop, out, state)
    reached: cython.Py_ssize_t
    pieces: Context
    margin: cython.Py_ssize_t = MARGIN + sum(map(len, context))
    if cython.compiled:
        take_context(cython.address(pieces), context)
        with cython.nogil:
            reached = put_rows(
                cython.address(out[0]),
                out.shape[0],
                cython.address(buf[0]),
                cython.address(rows[0]),
                cython.address(headers[0]),
                first,
                stop,
                magic,
                timestamp_kind,
                flags,
                cython.address(pieces),
                margin,
                position,
                cython.address(state[0]),
            )
            if reached < stop:
                state[6] = room_for(cython.address(rows[0]), reached, cython.address(headers[0]), out.shape[0])
    else:
        capacity, kind = len(out), timestamp_kind
        reached = put_rows(
            out, capacity, buf, rows, headers, first, stop, magic, kind, flags, context, margin, position, state
        )
        if reached < stop:
            state[6] = room_for(rows, reached, headers, capacity)
    state[5] += reached - first
    state[1] = reached
    if reached == stop:
        return 0
    return 1 if state[3] else 3


def use_loops(most: cython.int) -> int:
    """For tests: 0 turns the loops of shuffle.h off, 1 on where this processor has them; the level it has."""
    if cython.compiled:
        escape.shuffle_setup()
        best: cython.int = escape.can_shuffle
        escape.can_shuffle = min(best, most)
        return best
    return 0
