"""The lines of kafka-dump-log (4.3): batches and records to text, byte for byte.

The line formats are those of Kafka's DumpLogSegments.printBatchLevel, printRecordMetadata and printRecordContents.
Keys, values and header keys appear as Java's ``new String(bytes, UTF_8)`` shows them: U+FFFD for what is not UTF-8.

Flags: DEEP prints the records of each batch, CONTENTS their keys and values, SKIP_METADATA nothing but those; ESCAPE
writes control characters as ``\\n``, ``\\r``, ``\\t`` or ``\\xNN``; LINE_ONLY prints the batch line whatever the
frame holds.

``state`` (int64[8], in and out): 0 FRAME, the next one (of `text_records`: 1 ROW)  1 RECORDS of it already printed
2 POSITION of its next record, 0: its line is not printed yet  3 BYTES in ``out``  4 BATCHES printed  5 RECORDS printed
6 ROOM that is needed  7 BASE, added to every position that is printed (frames count from the start of the buffer).
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel import escape
    from cython.cimports.kseg.kernel.batch_lines import put_text_batch
    from cython.cimports.kseg.kernel.escape import (
        F_CONTENTS,
        F_DEEP,
        F_ESCAPE,
        F_LINE_ONLY,
        F_SKIP_METADATA,
        Counters,
        forget,
        put,
        put_int,
        put_java,
        put_near,
        put_visible,
    )
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY,
        HEADER_KEY_SIZE,
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
    from cython.cimports.kseg.kernel.plain import enter, leave, room_for
    from cython.cimports.libc.string import memcpy, memset

    escape.shuffle_setup()
else:
    from kseg.kernel.batch_lines import put_text_batch
    from kseg.kernel.escape import F_CONTENTS, F_DEEP, F_ESCAPE, F_LINE_ONLY, F_SKIP_METADATA, java, visible
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY,
        HEADER_KEY_SIZE,
        HEADER_WIDTH,
        ROW_WIDTH,
    )
    from kseg.kernel.plain import enter, leave, room_for

    Counters = None

from kseg.kernel.plain import check_buffers, check_rows

COMPILED = cython.compiled

DEEP, CONTENTS, SKIP_METADATA, ESCAPE, LINE_ONLY = 1, 2, 4, 8, 16
DONE, FULL, NOT_PLAIN, TOO_SMALL, TOO_MANY_HEADERS = 0, 1, 2, 3, 4

MARGIN = cython.declare(cython.Py_ssize_t, 1024)
TAIL = cython.declare(cython.Py_ssize_t, 512)
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
KINDS = (b"NoTimestampType", b"CreateTime", b"LogAppendTime")


if not cython.compiled:

    def record_line(p, row, headers, magic, kind, flags):
        """One record line; row is the ten columns of `kseg.kernel.native`."""
        offset, timestamp, sequence, key, key_size, value, value_size, first, header_count, check = row
        text = visible if flags & F_ESCAPE else java
        line = b""
        if not flags & F_SKIP_METADATA:
            line = b"| offset: %d %s: %d keySize: %d valueSize: %d" % (offset, kind, timestamp, key_size, value_size)
            if magic >= 2:
                names = b""
                if header_count:
                    names = b",".join(_header_keys(p, headers, first, header_count, text))
                line += b" sequence: %d headerKeys: [%s]" % (sequence, names)
            else:
                line += b" isValid: %s crc: %d" % (b"true" if check >> 32 & 1 else b"false", check & LOW_32_BITS)
        if flags & F_CONTENTS:
            lead = b"" if line else b"|"
            if key_size >= 0:
                line += b"%s key: %s" % (lead, text(bytes(p[key : key + key_size])))
                lead = b""
            if value_size >= 0:
                line += b"%s payload: %s" % (lead, text(bytes(p[value : value + value_size])))
        return line + b"\n"

    def _header_keys(p, headers, first, count, text):
        for h in range(first * HEADER_WIDTH, (first + count) * HEADER_WIDTH, HEADER_WIDTH):
            yield text(bytes(p[headers[h + HEADER_KEY] : headers[h + HEADER_KEY] + headers[h + HEADER_KEY_SIZE]]))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_kind(out: cython.pointer[cython.uchar], o: cython.Py_ssize_t, kind: cython.int) -> cython.Py_ssize_t:
    if kind == 1:
        return put(out, o, b" CreateTime: ", 13)
    if kind == 2:
        return put(out, o, b" LogAppendTime: ", 16)
    return put(out, o, b" NoTimestampType: ", 18)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_metadata(
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
    """A record's line up to its key; negative when there is no room."""
    k: cython.longlong
    h: cython.Py_ssize_t
    o = put(out, o, b"| offset: ", 10)
    o = put_near(cython.address(counters.offset), out, o, row[ROW_OFFSET])
    o = put_kind(out, o, kind)
    o = put_near(cython.address(counters.timestamp), out, o, row[ROW_TIMESTAMP])
    o = put(out, o, b" keySize: ", 10)
    o = put_int(out, o, row[ROW_KEY_SIZE])
    o = put(out, o, b" valueSize: ", 12)
    o = put_int(out, o, row[ROW_VALUE_SIZE])
    if magic < 2:
        o = put(out, o, b" isValid: ", 10)
        o = put(out, o, b"true", 4) if (row[ROW_CHECK] >> 32) & 1 else put(out, o, b"false", 5)
        o = put(out, o, b" crc: ", 6)
        return put_int(out, o, row[ROW_CHECK] & LOW_32_BITS)
    o = put(out, o, b" sequence: ", 11)
    o = put_near(cython.address(counters.sequence), out, o, row[ROW_SEQUENCE])
    o = put(out, o, b" headerKeys: [", 14)
    h = row[ROW_HEADERS] * HEADER_WIDTH
    for k in range(row[ROW_HEADER_COUNT]):
        if k:
            o = put(out, o, b",", 1)
        o = put_text(out, o, limit, p + headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE], flags)
        if o < 0:
            return o
        h += HEADER_WIDTH
    return put(out, o, b"]", 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_text(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    size: cython.Py_ssize_t,
    flags: cython.int,
) -> cython.Py_ssize_t:
    if flags & F_ESCAPE:
        return put_visible(out, o, limit, p, size)
    return put_java(out, o, limit, p, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_record_line(
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
    """The position behind the record's line; negative when there is no room."""
    bare: cython.bint = flags & F_SKIP_METADATA
    if not bare:
        o = put_metadata(out, o, limit, p, row, headers, magic, kind, flags, counters)
        if o < 0:
            return o
    if flags & F_CONTENTS:
        if row[ROW_KEY_SIZE] >= 0:
            o = put(out, o, b"| key: ", 7) if bare else put(out, o, b" key: ", 6)
            bare = False
            o = put_text(out, o, limit, p + row[ROW_KEY], row[ROW_KEY_SIZE], flags)
            if o < 0:
                return o
        if row[ROW_VALUE_SIZE] >= 0:
            o = put(out, o, b"| payload: ", 11) if bare else put(out, o, b" payload: ", 10)
            o = put_text(out, o, limit, p + row[ROW_VALUE], row[ROW_VALUE_SIZE], flags)
            if o < 0:
                return o
    return put(out, o, b"\n", 1)


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
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """Prints rows at out[state[3]] and moves state[3]; returns the first row that found no room, else stop."""
    o: cython.Py_ssize_t = state[3]
    row: cython.Py_ssize_t = first
    after: cython.Py_ssize_t
    counters: Counters
    if cython.compiled:
        forget(cython.address(counters))
        while row < stop and o + MARGIN <= capacity:
            after = put_record_line(
                out,
                o,
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
        name = KINDS[kind]
        while row < stop:
            line = record_line(p, rows[row * ROW_WIDTH : row * ROW_WIDTH + ROW_WIDTH], headers, magic, name, flags)
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
def put_frame_line(
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    length: cython.Py_ssize_t,
    frame: cython.pointer[cython.const[cython.longlong]],
    state: cython.pointer[cython.longlong],
) -> cython.bint:
    """Prints a frame's line and moves state[3]; false when there is no room."""
    position: cython.Py_ssize_t = frame[FRAME_POSITION]
    scratch: cython.uchar[64]
    if state[3] + MARGIN > capacity:
        return False
    if length - position >= 61:
        state[3] = put_text_batch(out, state[3], p, position, frame, state[7])
    elif cython.compiled:
        memset(scratch, 0, 64)
        memcpy(scratch, p + position, length - position)
        state[3] = put_text_batch(out, state[3], scratch, 0, frame, state[7])
    else:
        state[3] = put_text_batch(out, state[3], bytes(p[position:length]).ljust(64, b"\0"), 0, frame, state[7])
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_batches(
    p: cython.pointer[cython.const[cython.uchar]],
    length: cython.Py_ssize_t,
    frames: cython.pointer[cython.const[cython.longlong]],
    area: cython.pointer[cython.const[cython.uchar]],
    laid: cython.pointer[cython.const[cython.longlong]],
    stop: cython.Py_ssize_t,
    flags: cython.int,
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
    deep: cython.bint = flags & F_DEEP and not flags & F_LINE_ONLY
    kind: cython.int
    status: cython.int
    written: cython.Py_ssize_t
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    while state[0] < stop:
        at = state[0] * FRAME_WIDTH
        frame = frames + at if cython.compiled else frames[at : at + FRAME_WIDTH]
        opened = laid + at if cython.compiled else laid[at : at + FRAME_WIDTH]
        if deep:
            status = enter(
                area, opened, state, batch, cursor, rows, row_capacity, headers, header_capacity, capacity - state[3]
            )
            if status > 1:
                state[6] = 2 * header_capacity + 8
                return 4 if status == 14 else 2
        elif not frame[FRAME_STATE] & 1 and not flags & F_LINE_ONLY:
            return 2
        if state[2] == 0:
            if not put_frame_line(out, capacity, p, length, frame, state):
                state[6] = 2 * capacity
                return 1 if state[3] else 3
            state[4] += 1
            if not deep:
                state[0] += 1
                continue
            state[1] = 0
            state[2] = opened[FRAME_POSITION] + (61 if frame[FRAME_MAGIC] >= 2 else 12)
        kind = 0
        if frame[FRAME_MAGIC]:
            kind = 1 + ((p[frame[FRAME_POSITION] + (22 if frame[FRAME_MAGIC] >= 2 else 17)] >> 3) & 1)
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
            state,
        )
        if written < cursor[2]:
            state[6] = room_for(rows, written, headers, capacity)
            leave(area, opened, state, batch, cursor, written, rows, headers)
            return 1 if state[3] else 3
        leave(area, opened, state, batch, cursor, written, rows, headers)
    return 0


def text_batches(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    flags: cython.int,
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
    area: cython.const[cython.uchar][::1] = None,
    laid: cython.const[cython.longlong][::1] = None,
) -> int:
    """Prints the frames from state[0] up to ``stop`` (a fresh call has state[0] == ``start``) into ``out``.

    DONE; FULL: take out[:state[3]], set state[3] to 0 and call again; NOT_PLAIN: the frame at state[0] is the caller's
    to print (state[2] is then 0; where it isn't, the bytes changed while they were read); TOO_SMALL: ``out``, empty,
    must grow to state[6] bytes; TOO_MANY_HEADERS: ``headers`` must grow to state[6] rows. ValueError for buffers that
    don't match.

    ``area`` and ``laid``, where they are given, are what `kseg.kernel.laying` has made of these frames.
    """
    check_buffers(len(buf), frames, start, stop, rows, out, state)
    if laid is None:
        area, laid = buf, frames
    else:
        check_buffers(len(area), laid, start, stop, rows, out, state)
    status: cython.int
    if cython.compiled:
        with cython.nogil:
            status = write_batches(
                cython.address(buf[0]), buf.shape[0], cython.address(frames[0]), cython.address(area[0]),
                cython.address(laid[0]), stop, flags, cython.address(rows[0]), rows.shape[0] // ROW_WIDTH,
                cython.address(headers[0]), headers.shape[0] // HEADER_WIDTH, cython.address(out[0]), out.shape[0],
                cython.address(state[0]),
            )  # fmt: skip
        return status
    else:
        row_capacity, header_capacity = len(rows) // ROW_WIDTH, len(headers) // HEADER_WIDTH
        return write_batches(
            buf, len(buf), frames, area, laid, stop, flags, rows, row_capacity, headers, header_capacity, out,
            len(out), state,
        )  # fmt: skip


def text_records(
    buf: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    timestamp_type: bytes,
    flags: cython.int,
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Prints rows ``first`` up to ``stop``, whose positions count from the start of ``buf``; state[1] is then the next.

    ``timestamp_type`` is the name of the batch's: NoTimestampType, CreateTime or LogAppendTime. DONE, FULL or TOO_SMALL
    as `text_batches`. ValueError for buffers that don't match.
    """
    kind: cython.int = KINDS.index(timestamp_type)
    reached: cython.Py_ssize_t
    check_rows(rows, first, stop, out, state)
    if cython.compiled:
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
                kind,
                flags,
                cython.address(state[0]),
            )
            state[5] += reached - first
            state[1] = reached
            if reached < stop:
                state[6] = room_for(cython.address(rows[0]), reached, cython.address(headers[0]), out.shape[0])
    else:
        reached = put_rows(out, len(out), buf, rows, headers, first, stop, magic, kind, flags, state)
        state[5] += reached - first
        state[1] = reached
        if reached < stop:
            state[6] = room_for(rows, reached, headers, len(out))
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
