"""Batches and records of internal topics as text or JSON Lines, keys and values decoded by a program.

The lines are those of `kseg.kernel.text` and `kseg.kernel.jsonl` up to a record's key; what follows is what
`kseg.decoders` makes of it. ``program`` is that of `kseg.formats.program`; ``context`` that of the JSON lines, None for
text. Flags: SKIP_METADATA, of text; all others are passed over.

``state`` (int64[10]) begins as that of `kseg.kernel.text`; 8 is the row of a record that is the caller's to
finish, 9 whether it is of a control batch.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.batch_lines import put_json_batch, take_context
    from cython.cimports.kseg.kernel.escape import F_CONTENTS, F_SKIP_METADATA, Context, Counters, forget, put, put_int
    from cython.cimports.kseg.kernel.framings import put_contents
    from cython.cimports.kseg.kernel.jsonl import put_fields
    from cython.cimports.kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_WIDTH, HEADER_WIDTH, ROW_WIDTH
    from cython.cimports.kseg.kernel.plain import enter_any, has_plain_header, leave, room_for
    from cython.cimports.kseg.kernel.schema import NO_ROOM, Job
    from cython.cimports.kseg.kernel.text import put_frame_line, put_metadata
else:
    from kseg.kernel.batch_lines import put_json_batch
    from kseg.kernel.escape import F_CONTENTS, F_SKIP_METADATA, put
    from kseg.kernel.framings import put_contents
    from kseg.kernel.job import Job
    from kseg.kernel.jsonl import record_line as json_record_line
    from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_WIDTH, HEADER_WIDTH, ROW_WIDTH
    from kseg.kernel.plain import enter_any, has_plain_header, leave, room_for
    from kseg.kernel.schema import NO_ROOM
    from kseg.kernel.text import KINDS, put_frame_line
    from kseg.kernel.text import record_line as text_record_line

    Context = Counters = None

from kseg.kernel.plain import check_buffers, check_rows

COMPILED = cython.compiled

DONE, FULL, NOT_PLAIN_FRAME, TOO_SMALL, TOO_MANY_HEADERS, YOURS = 0, 1, 2, 3, 4, 5

MARGIN = cython.declare(cython.Py_ssize_t, 2048)
TAIL = cython.declare(cython.Py_ssize_t, 1024)
ROW_LEFT = cython.declare(cython.Py_ssize_t, 8)
OF_CONTROL_BATCH = cython.declare(cython.Py_ssize_t, 9)
CODEC = cython.declare(cython.int, 7)
CONTROL = cython.declare(cython.int, 0x20)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_beginning(
    job: cython.pointer[Job],
    row: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    magic: cython.int,
    kind: cython.int,
    flags: cython.int,
    context: cython.pointer[cython.const[Context]],
    position: cython.longlong,
    counters: cython.pointer[Counters],
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The line of a record up to its key; NO_ROOM where there is less than TAIL behind it."""
    contents: cython.int = F_CONTENTS if job.is_control else 0
    if cython.compiled:
        if not job.as_jackson:
            o = put(job.out, o, context.record, context.record_size)
            o = put_int(job.out, o, position)
            o = put(job.out, o, context.partition, context.partition_size)
            o = put_fields(job.out, o, job.limit, job.p, row, headers, magic, kind, contents, counters)
            return o - 2 if o >= 0 else NO_ROOM
        if flags & F_SKIP_METADATA:
            return o
        o = put_metadata(job.out, o, job.limit, job.p, row, headers, magic, kind, 0, counters)
        return o if o >= 0 else NO_ROOM
    else:
        if not job.as_jackson:
            line = json_record_line(job.p, row, headers, magic, kind, contents, context, position)[:-2]
        else:
            line = text_record_line(job.p, row, headers, magic, KINDS[kind], flags & F_SKIP_METADATA)[:-1]
        if o + len(line) > job.limit:
            return NO_ROOM
        return put(job.out, o, line, len(line))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_rows(
    job: cython.pointer[Job],
    capacity: cython.Py_ssize_t,
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
    """Prints rows at out[state[3]] and moves state[3]; returns the first row that found no room, else stop.

    Where state[8] is then not -1 it is the row returned, whose line is printed up to its key.
    """
    o: cython.Py_ssize_t = state[3]
    at: cython.Py_ssize_t = first
    begun: cython.Py_ssize_t
    after: cython.Py_ssize_t
    counters: Counters
    row: cython.pointer[cython.const[cython.longlong]]
    if cython.compiled:
        forget(cython.address(counters))
    else:
        counters = None
    state[ROW_LEFT] = -1
    while at < stop and o + margin <= capacity:
        row = rows + at * ROW_WIDTH if cython.compiled else rows[at * ROW_WIDTH : (at + 1) * ROW_WIDTH]
        begun = put_beginning(job, row, headers, magic, kind, flags, context, position, cython.address(counters), o)
        if begun < 0:
            break
        after = put_contents(job, row, flags & F_SKIP_METADATA, begun)
        if after == NO_ROOM:
            break
        if after < 0:
            state[3] = begun
            state[ROW_LEFT] = at
            state[OF_CONTROL_BATCH] = job.is_control
            return at
        o = put(job.out, after, b"\n", 1) if job.as_jackson else put(job.out, after, b"}\n", 2)
        at += 1
    state[3] = o
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_batches(
    job: cython.pointer[Job],
    p: cython.pointer[cython.const[cython.uchar]],
    length: cython.Py_ssize_t,
    frames: cython.pointer[cython.const[cython.longlong]],
    laid: cython.pointer[cython.const[cython.longlong]],
    stop: cython.Py_ssize_t,
    flags: cython.int,
    context: cython.pointer[cython.const[Context]],
    margin: cython.Py_ssize_t,
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.int:
    """``laid``: where in job.p records lie, which for those of a compressed batch is not where its line comes from."""
    frame: cython.pointer[cython.const[cython.longlong]]
    opened: cython.pointer[cython.const[cython.longlong]]
    at: cython.Py_ssize_t
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
        if not has_plain_header(p, frame):
            return 2
        status = enter_any(
            job.p, opened, state, batch, cursor, rows, row_capacity, headers, header_capacity, capacity - state[3],
            CODEC,
        )  # fmt: skip
        if status > 1:
            state[6] = 2 * header_capacity + 8
            return 4 if status == 14 else 2
        at = frame[FRAME_POSITION]
        job.is_control = frame[FRAME_MAGIC] == 2 and (p[at + 22] & CONTROL) != 0
        if state[2] == 0:
            if state[3] + margin > capacity:
                state[6] = 2 * capacity
                return 1 if state[3] else 3
            if job.as_jackson:
                put_frame_line(job.out, capacity, p, length, frame, state)
            else:
                state[3] = put_json_batch(job.out, state[3], p, frame, state[7], context)
            state[4] += 1
            state[1] = 0
            state[2] = opened[FRAME_POSITION] + (61 if frame[FRAME_MAGIC] == 2 else 12)
        kind = 0
        if frame[FRAME_MAGIC] == 2 or (frame[FRAME_MAGIC] == 1 and job.as_jackson):
            kind = 1 + ((p[at + (22 if frame[FRAME_MAGIC] == 2 else 17)] >> 3) & 1)
        written = put_rows(
            job,
            capacity,
            rows,
            headers,
            0,
            cursor[2],
            cython.cast(cython.int, frame[FRAME_MAGIC]),
            kind,
            flags,
            context,
            margin,
            at + state[7],
            state,
        )
        if state[ROW_LEFT] >= 0:
            leave(job.p, opened, state, batch, cursor, written + 1, rows, headers)
            return 5
        if written < cursor[2]:
            state[6] = room_for(rows, written, headers, capacity)
            leave(job.p, opened, state, batch, cursor, written, rows, headers)
            return 1 if state[3] else 3
        leave(job.p, opened, state, batch, cursor, written, rows, headers)
    return 0


@cython.cfunc
def take_program(job: cython.pointer[Job], program: object, out: cython.uchar[::1], context: object):
    """Points the job at the program, which the caller must hold on to, and at the output."""
    code: cython.const[cython.longlong][::1] = program[0]
    names: bytes = program[1]
    job.limit = len(out) - TAIL
    job.as_jackson = context is None
    if cython.compiled:
        job.times.base = -1
        job.code = cython.address(code[0])
        job.names = names
        job.out = cython.address(out[0])
    else:
        job.code, job.names, job.out = code, names, out


def batches(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    flags: cython.int,
    context: tuple | None,
    program: object,
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
    area: cython.const[cython.uchar][::1] = None,
    laid: cython.const[cython.longlong][::1] = None,
) -> int:
    """Prints the frames from state[0] up to ``stop`` with their records, as `kseg.kernel.text.text_batches` does.

    YOURS, besides what that one returns: the caller has to decode the record in row state[8] and to end its line, which
    is printed up to its key; state[0] to state[2] are already those of the next record.
    """
    check_buffers(len(buf), frames, start, stop, rows, out, state)
    if laid is None:
        area, laid = buf, frames
    else:
        check_buffers(len(area), laid, start, stop, rows, out, state)
    if len(state) < 10:
        raise ValueError("state needs 10 entries")
    status: cython.int
    pieces: Context
    job: Job
    margin: cython.Py_ssize_t = MARGIN + (sum(map(len, context)) if context else 0)
    row_capacity: cython.Py_ssize_t = len(rows) // ROW_WIDTH
    header_capacity: cython.Py_ssize_t = len(headers) // HEADER_WIDTH
    if cython.compiled:
        take_program(cython.address(job), program, out, context)
        if context is not None:
            take_context(cython.address(pieces), context)
        job.p = cython.address(area[0])
        with cython.nogil:
            status = write_batches(
                cython.address(job),
                cython.address(buf[0]),
                buf.shape[0],
                cython.address(frames[0]),
                cython.address(laid[0]),
                stop,
                flags,
                cython.address(pieces),
                margin,
                cython.address(rows[0]),
                row_capacity,
                cython.address(headers[0]),
                header_capacity,
                out.shape[0],
                cython.address(state[0]),
            )
        return status
    else:
        job = Job()
        take_program(job, program, out, context)
        job.p = area
        return write_batches(
            job, buf, len(buf), frames, laid, stop, flags, context, margin, rows, row_capacity, headers,
            header_capacity, len(out), state,
        )  # fmt: skip


def records(
    buf: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    kind: cython.int,
    flags: cython.int,
    context: tuple | None,
    position: cython.longlong,
    program: object,
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Prints rows ``first`` up to ``stop``, whose positions count from the start of ``buf``; state[1] is then the next.

    ``kind`` is the batch's timestamp type (0 none, 1 CreateTime, 2 LogAppendTime), ``position`` its own. DONE, FULL,
    TOO_SMALL or YOURS, as `batches`.
    """
    check_rows(rows, first, stop, out, state)
    if len(state) < 10:
        raise ValueError("state needs 10 entries")
    reached: cython.Py_ssize_t
    pieces: Context
    job: Job
    margin: cython.Py_ssize_t = MARGIN + (sum(map(len, context)) if context else 0)
    if cython.compiled:
        take_program(cython.address(job), program, out, context)
        if context is not None:
            take_context(cython.address(pieces), context)
        job.p = cython.address(buf[0])
        job.is_control = False
        with cython.nogil:
            reached = put_rows(
                cython.address(job),
                out.shape[0],
                cython.address(rows[0]),
                cython.address(headers[0]),
                first,
                stop,
                magic,
                kind,
                flags,
                cython.address(pieces),
                margin,
                position,
                cython.address(state[0]),
            )
            if reached < stop:
                state[6] = room_for(cython.address(rows[0]), reached, cython.address(headers[0]), out.shape[0])
    else:
        job = Job()
        take_program(job, program, out, context)
        job.p = buf
        job.is_control = False
        capacity = len(out)
        reached = put_rows(
            job, capacity, rows, headers, first, stop, magic, kind, flags, context, margin, position, state
        )
        if reached < stop:
            state[6] = room_for(rows, reached, headers, capacity)
    state[1] = reached
    if state[ROW_LEFT] >= 0:
        state[1] = reached + 1
    state[5] += state[1] - first
    if state[ROW_LEFT] >= 0:
        return 5
    if reached == stop:
        return 0
    return 1 if state[3] else 3
