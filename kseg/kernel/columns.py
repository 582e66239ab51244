"""Records as columns: rows of whole runs of frames, and what of them lies in buffers as Apache Arrow has them.

`collect` reads the rows of many plain frames (`kseg.kernel.plain`), `keep` leaves of any rows those that are asked for,
`fitting` says how many of them fit. The others fill columns, each alone, so that nobody pays for those not wanted:
numbers are int64 or int32, a bit of ``valid`` is set for what is not null, the first row lowest in the first byte.
Bytes: `kseg.kernel.gathering`.

ROW_CHECK of every row, whatever its format, is VALID and the timestamp kind, as `kseg.kernel.native` tells it of v0.

``state`` (int64[8], in and out, of `collect`): 0 FRAME, the next one  1 RECORDS of it already read  2 POSITION of its
next record, 0: it is not begun  3 ROWS written  4 HEADERS written  5 ROWS of all calls  6 HEADERS that are needed.

``wanted`` (int64[4]): 0 FIRST and 1 LAST offset, 2 EARLIEST and 3 LATEST timestamp in ms, both ends included.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY_SIZE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_CHECK,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        be32,
        be64,
    )
    from cython.cimports.kseg.kernel.plain import enter, leave, offset_after
else:
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY_SIZE,
        HEADER_VALUE_SIZE,
        HEADER_WIDTH,
        ROW_CHECK,
        ROW_HEADER_COUNT,
        ROW_HEADERS,
        ROW_KEY_SIZE,
        ROW_OFFSET,
        ROW_TIMESTAMP,
        ROW_VALUE_SIZE,
        ROW_WIDTH,
        be32,
        be64,
    )
    from kseg.kernel.plain import enter, leave, offset_after

COMPILED = cython.compiled

DONE, FULL, NOT_PLAIN, MORE_HEADERS = 0, 1, 2, 4
STATE_SIZE = 8
VALID = 1 << 32
FIRST, LAST, EARLIEST, LATEST = 0, 1, 2, 3
KEYS, VALUES, HEADERS = 1, 2, 4

VALID_BIT = cython.declare(cython.longlong, 0x100000000)
PLENTY = cython.declare(cython.Py_ssize_t, 0x3FFFFFFFFFFFFFFF)
INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_outside(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    wanted: cython.pointer[cython.const[cython.longlong]],
) -> cython.bint:
    """Whether no record of an intact frame is asked for, by its header; control records never are."""
    at: cython.Py_ssize_t = frame[FRAME_POSITION]
    first: cython.longlong = be64(p, at)
    if frame[FRAME_MAGIC] == 2:
        return (
            (p[at + 22] & 32) != 0
            or first > wanted[1]
            or offset_after(first, be32(p, at + 23)) < wanted[0]
            or be64(p, at + 35) < wanted[2]
        )
    if frame[FRAME_MAGIC] == 0 or frame[FRAME_MAGIC] == 1:
        # The offset of a compressed message is the last one inside, its timestamp the largest one.
        return (
            first < wanted[0]
            or (first > wanted[1] and (p[at + 17] & 7) == 0)
            or (frame[FRAME_MAGIC] == 1 and be64(p, at + 18) < wanted[2])
        )
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def collect_rows(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    stop: cython.Py_ssize_t,
    wanted: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.int:
    frame: cython.pointer[cython.const[cython.longlong]]
    own_rows: cython.pointer[cython.longlong]
    own_headers: cython.pointer[cython.longlong]
    status: cython.int
    k: cython.Py_ssize_t
    kind: cython.longlong
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    while state[0] < stop:
        if cython.compiled:
            frame = frames + state[0] * FRAME_WIDTH
            own_rows = rows + state[3] * ROW_WIDTH
            own_headers = headers + state[4] * HEADER_WIDTH
        else:
            frame = frames[state[0] * FRAME_WIDTH : (state[0] + 1) * FRAME_WIDTH]
            own_rows = rows[state[3] * ROW_WIDTH :]
            own_headers = headers[state[4] * HEADER_WIDTH :]
        if state[2] == 0 and frame[FRAME_STATE] & 1 and is_outside(p, frame, wanted):
            state[0] += 1
            continue
        if state[3] >= row_capacity:
            return 1
        status = enter(
            p, frame, state, batch, cursor, own_rows, row_capacity - state[3], own_headers,
            header_capacity - state[4], PLENTY,
        )  # fmt: skip
        if status == 14 and state[4]:
            return 1
        if status > 1:
            state[6] = 2 * header_capacity + 8
            return 4 if status == 14 else 2
        if frame[FRAME_MAGIC] == 2:
            kind = 1 + ((p[frame[FRAME_POSITION] + 22] >> 3) & 1)
            for k in range(cursor[2]):
                own_rows[k * ROW_WIDTH + ROW_CHECK] = VALID_BIT * (2 * kind + 1)
                own_rows[k * ROW_WIDTH + ROW_HEADERS] += state[4]
        leave(p, frame, state, batch, cursor, cursor[2], own_rows, own_headers)
        state[3] += cursor[2]
        state[4] += cursor[3]
    return 0


def collect(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    stop: cython.Py_ssize_t,
    wanted: cython.const[cython.longlong][::1],
    rows: cython.longlong[::1],
    headers: cython.longlong[::1],
    state: cython.longlong[::1],
) -> int:
    """Reads rows of the frames from state[0] up to ``stop`` behind the state[3] rows and state[4] headers there are.

    DONE; FULL: there is no room for more rows or headers, take them and set state[3] and [4] to 0; NOT_PLAIN: the frame
    is the caller's to open; MORE_HEADERS: no room for those of one record, state[6] tells how many. Intact frames whose
    header says that nothing in them is ``wanted`` are passed over; of others every row is written.
    """
    status: cython.int
    row_capacity: cython.Py_ssize_t = len(rows) // ROW_WIDTH
    header_capacity: cython.Py_ssize_t = len(headers) // HEADER_WIDTH
    if len(state) < STATE_SIZE or len(wanted) < 4 or not row_capacity or not header_capacity:
        raise ValueError("a buffer is too short")
    if not (0 <= state[0] and stop <= len(frames) // FRAME_WIDTH):
        raise ValueError("no such frames")
    if not (0 <= state[3] <= row_capacity and 0 <= state[4] <= header_capacity):
        raise ValueError("no such place among the rows")
    if state[0] >= stop:
        return 0
    if frames[(stop - 1) * FRAME_WIDTH] + frames[(stop - 1) * FRAME_WIDTH + 1] > len(buf):
        raise ValueError("frames reach beyond the buffer")
    if cython.compiled:
        with cython.nogil:
            status = collect_rows(
                cython.address(buf[0]),
                cython.address(frames[0]),
                stop,
                cython.address(wanted[0]),
                cython.address(rows[0]),
                row_capacity,
                cython.address(headers[0]),
                header_capacity,
                cython.address(state[0]),
            )
        return status
    else:
        return collect_rows(buf, frames, stop, wanted, rows, row_capacity, headers, header_capacity, state)


def stamp(rows: cython.longlong[::1], count: cython.Py_ssize_t, kind: cython.longlong) -> None:
    """Gives rows of a v2 batch, which another one has read, the ROW_CHECK that `collect` writes."""
    k: cython.Py_ssize_t
    check: cython.longlong = VALID_BIT * (2 * kind + 1)
    check_rows(len(rows), count)
    for k in range(count):
        rows[k * ROW_WIDTH + ROW_CHECK] = check


def count_invalid(rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t) -> int:
    """How many rows are of messages whose own checksum is wrong."""
    k: cython.Py_ssize_t
    wrong: cython.Py_ssize_t = 0
    check_rows(len(rows), count)
    for k in range(count):
        wrong += not rows[k * ROW_WIDTH + ROW_CHECK] & VALID_BIT
    return wrong


def keep(rows: cython.longlong[::1], count: cython.Py_ssize_t, wanted: cython.const[cython.longlong][::1]) -> int:
    """Moves the rows that are valid and wanted to the front; how many they are.

    A row without a timestamp is wanted where all timestamps are.
    """
    k: cython.Py_ssize_t
    f: cython.Py_ssize_t
    at: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    check: cython.longlong
    check_rows(len(rows), count)
    if len(wanted) < 4:
        raise ValueError("a buffer is too short")
    first: cython.longlong = wanted[0]
    last: cython.longlong = wanted[1]
    earliest: cython.longlong = wanted[2]
    latest: cython.longlong = wanted[3]
    any_time: cython.bint = earliest == -INT64_MAX - 1 and latest == INT64_MAX
    for k in range(count):
        at = k * ROW_WIDTH
        check = rows[at + ROW_CHECK]
        if not check & VALID_BIT or rows[at + ROW_OFFSET] < first or rows[at + ROW_OFFSET] > last:
            continue
        if not any_time and (
            (check >> 33) & 3 == 0 or rows[at + ROW_TIMESTAMP] < earliest or rows[at + ROW_TIMESTAMP] > latest
        ):
            continue
        if kept != k:
            for f in range(ROW_WIDTH):
                rows[kept * ROW_WIDTH + f] = rows[at + f]
        kept += 1
    return kept


def fitting(
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    parts: cython.int,
    room: cython.longlong[::1],
) -> int:
    """The row behind the last one from ``first`` on whose parts fit into room[0] bytes, from which they are taken.

    ``parts``: KEYS, VALUES and HEADERS or'ed together, what of a row takes room.
    """
    k: cython.Py_ssize_t
    h: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    check_rows(len(rows), stop)
    if not len(room):
        raise ValueError("a buffer is too short")
    for k in range(first, stop):
        at = k * ROW_WIDTH
        size = 0
        if parts & 1 and rows[at + ROW_KEY_SIZE] > 0:
            size += rows[at + ROW_KEY_SIZE]
        if parts & 2 and rows[at + ROW_VALUE_SIZE] > 0:
            size += rows[at + ROW_VALUE_SIZE]
        if parts & 4 and rows[at + ROW_HEADER_COUNT]:
            check_headers(len(headers), rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
            for h in range(rows[at + ROW_HEADERS], rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT]):
                size += headers[h * HEADER_WIDTH + HEADER_KEY_SIZE]
                if headers[h * HEADER_WIDTH + HEADER_VALUE_SIZE] > 0:
                    size += headers[h * HEADER_WIDTH + HEADER_VALUE_SIZE]
        if size > room[0]:
            return k
        room[0] -= size
    return stop


def numbers(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    field: cython.Py_ssize_t,
    out: cython.longlong[::1],
    at: cython.Py_ssize_t,
) -> None:
    """One field of the rows as int64 from out[at] on."""
    k: cython.Py_ssize_t
    check_rows(len(rows), stop)
    check_room(len(out), at, stop - first)
    if not 0 <= field < ROW_WIDTH:
        raise ValueError("no such field")
    for k in range(first, stop):
        out[at + k - first] = rows[k * ROW_WIDTH + field]


def kinds(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.int[::1],
    at: cython.Py_ssize_t,
) -> None:
    """Timestamp types by Kafka's TimestampType ids from out[at] on: -1 none, 0 CreateTime, 1 LogAppendTime."""
    k: cython.Py_ssize_t
    check_rows(len(rows), stop)
    check_room(len(out), at, stop - first)
    for k in range(first, stop):
        out[at + k - first] = cython.cast(cython.int, ((rows[k * ROW_WIDTH + ROW_CHECK] >> 33) & 3) - 1)


def times(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    scale: cython.longlong,
    out: cython.longlong[::1],
    valid: cython.uchar[::1],
    at: cython.Py_ssize_t,
) -> None:
    """Timestamps times ``scale`` (1 for ms, 1000 for us) from out[at] on.

    Null for formats that have none and where the product is no int64: only damage or a wrong clock writes such.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    time: cython.longlong
    limit: cython.longlong
    check_rows(len(rows), stop)
    check_room(len(out), at, stop - first)
    check_room(8 * len(valid), at, stop - first)
    if scale < 1:
        raise ValueError("no such scale")
    limit = INT64_MAX // scale
    for k in range(first, stop):
        i = at + k - first
        time = rows[k * ROW_WIDTH + ROW_TIMESTAMP]
        out[i] = 0
        if (rows[k * ROW_WIDTH + ROW_CHECK] >> 33) & 3 and -limit <= time <= limit:
            out[i] = time * scale
            valid[i >> 3] |= 1 << (i & 7)


def header_ends(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    ends: cython.int[::1],
    at: cython.Py_ssize_t,
) -> int:
    """Where the headers of each row end among those of all, in ends[at + 1] and on; the last of them.

    ends[at] is where those before ended.
    """
    k: cython.Py_ssize_t
    total: cython.longlong
    check_rows(len(rows), stop)
    check_room(len(ends), at + 1, stop - first)
    total = ends[at]
    for k in range(first, stop):
        total += rows[k * ROW_WIDTH + ROW_HEADER_COUNT]
        if total > 0x7FFFFFFF:
            raise ValueError("too many headers")
        ends[at + 1 + k - first] = cython.cast(cython.int, total)
    return total


def headers_of(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    headers: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> int:
    """The header rows of the rows, one after the other; how many."""
    k: cython.Py_ssize_t
    h: cython.Py_ssize_t
    f: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    check_rows(len(rows), stop)
    for k in range(first, stop):
        at = k * ROW_WIDTH
        if not rows[at + ROW_HEADER_COUNT]:
            continue
        check_headers(len(headers), rows[at + ROW_HEADERS], rows[at + ROW_HEADER_COUNT])
        check_headers(len(out), count, rows[at + ROW_HEADER_COUNT])
        for h in range(rows[at + ROW_HEADERS], rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT]):
            for f in range(HEADER_WIDTH):
                out[count * HEADER_WIDTH + f] = headers[h * HEADER_WIDTH + f]
            count += 1
    return count


@cython.cfunc
def check_rows(length: cython.Py_ssize_t, stop: cython.Py_ssize_t):
    if stop < 0 or stop > length // ROW_WIDTH:
        raise ValueError("no such rows")


@cython.cfunc
def check_headers(length: cython.Py_ssize_t, first: cython.longlong, count: cython.longlong):
    if first < 0 or count < 0 or first + count > length // HEADER_WIDTH:
        raise ValueError("no such headers")


@cython.cfunc
def check_room(length: cython.Py_ssize_t, at: cython.Py_ssize_t, count: cython.Py_ssize_t):
    if at < 0 or count < 0 or at > length - count:
        raise ValueError("no such place in the column")
