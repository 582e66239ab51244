"""The row group in the footer of a Parquet file, as it stands in the footer of a larger file that the group became
part of: all of it as it was, but for the positions and its number.

The footer is in Thrift's compact protocol (`kseg.columns.thrift`, which says where it is specified). A place in the
bytes and in what is written, and whether they are no such thing: ``cursor`` (int64[3]): 0 READ  1 WRITTEN  2 FAILED.
Field numbers: parquet.thrift of apache/parquet-format.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

COMPILED = cython.compiled

OTHER = cython.declare(cython.int, 0)
GROUP = cython.declare(cython.int, 1)
CHUNK = cython.declare(cython.int, 2)
META = cython.declare(cython.int, 3)
MOST_DEPTH = cython.declare(cython.int, 16)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take(
    p: cython.pointer[cython.const[cython.uchar]], n: cython.Py_ssize_t, cursor: cython.pointer[cython.longlong]
) -> cython.int:
    """The next byte."""
    if cursor[0] >= n:
        cursor[2] = 1
        return 0
    cursor[0] += 1
    return p[cursor[0] - 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take_number(
    p: cython.pointer[cython.const[cython.uchar]], n: cython.Py_ssize_t, cursor: cython.pointer[cython.longlong]
) -> cython.ulonglong:
    """A number as it is encoded: those of zigzag are twice as large as what they stand for, if that is not negative."""
    value: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.int
    for shift in range(0, 64, 7):
        byte = take(p, n, cursor)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    cursor[2] = 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put(
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    byte: cython.int,
) -> cython.void:
    if cursor[1] >= room:
        cursor[2] = 1
        return
    out[cursor[1]] = byte
    cursor[1] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_number(
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    value: cython.ulonglong,
) -> cython.void:
    while value > 127:
        put(out, room, cursor, cython.cast(cython.int, (value & 127) | 128))
        value >>= 7
    put(out, room, cursor, cython.cast(cython.int, value))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_bytes(
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    size: cython.ulonglong,
) -> cython.void:
    read: cython.Py_ssize_t = cursor[0]
    written: cython.Py_ssize_t = cursor[1]
    if size > cython.cast(cython.ulonglong, n - read) or size > cython.cast(cython.ulonglong, room - written):
        cursor[2] = 1
        return
    if cython.compiled:
        memcpy(out + written, p + read, size)
    else:
        out[written : written + size] = p[read : read + size]
    cursor[0] += size
    cursor[1] += size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_value(
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    kind: cython.int,
    level: cython.int,
    depth: cython.int,
    by: cython.ulonglong,
    ordinal: cython.int,
) -> cython.void:
    """A value of that kind, or a list of them, whose structures are of ``level``."""
    first: cython.int
    count: cython.ulonglong
    size: cython.ulonglong
    if kind == 1 or kind == 2:  # the field's own byte says which
        return
    if kind == 3:
        copy_bytes(p, n, out, room, cursor, 1)
    elif kind == 4 or kind == 5 or kind == 6:
        put_number(out, room, cursor, take_number(p, n, cursor))
    elif kind == 7:
        copy_bytes(p, n, out, room, cursor, 8)
    elif kind == 8:
        size = take_number(p, n, cursor)
        put_number(out, room, cursor, size)
        copy_bytes(p, n, out, room, cursor, size)
    elif kind == 9 or kind == 10:
        first = take(p, n, cursor)
        put(out, room, cursor, first)
        count = first >> 4
        if count == 15:
            count = take_number(p, n, cursor)
            put_number(out, room, cursor, count)
        kind = first & 15
        if kind == 1 or kind == 2:
            copy_bytes(p, n, out, room, cursor, count)
            return
        while count and not cursor[2]:
            copy_value(p, n, out, room, cursor, kind, level, depth + 1, by, ordinal)
            count -= 1
    elif kind == 12 and depth < MOST_DEPTH:
        copy_struct(p, n, out, room, cursor, level, depth + 1, by, ordinal)
    else:
        cursor[2] = 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_position(level: cython.int, number: cython.longlong) -> cython.bint:
    if level == GROUP:
        return number == 5
    if level == CHUNK:
        return number == 2 or number == 4 or number == 6
    # Of the data pages, an index page, the dictionary and a bloom filter.
    return level == META and (number == 9 or number == 10 or number == 11 or number == 14)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_field(
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    first: cython.int,
    number: cython.longlong,
) -> cython.longlong:
    """The number of a field that begins with that byte, behind field ``number``."""
    if first >> 4:
        return number + (first >> 4)
    return cython.cast(cython.longlong, take_number(p, n, cursor) >> 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_struct(
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    cursor: cython.pointer[cython.longlong],
    level: cython.int,
    depth: cython.int,
    by: cython.ulonglong,
    ordinal: cython.int,
) -> cython.void:
    first: cython.int
    kind: cython.int
    inner: cython.int
    number: cython.longlong = 0
    before: cython.longlong = 0
    value: cython.ulonglong
    while not cursor[2]:
        first = take(p, n, cursor)
        kind = first & 15
        if first == 0:
            put(out, room, cursor, 0)
            return
        number = next_field(p, n, cursor, first, number)
        if level == GROUP and number == 7 and ordinal < 0:
            take_number(p, n, cursor)
            continue
        if 0 < number - before < 16:
            put(out, room, cursor, cython.cast(cython.int, (number - before) << 4) | kind)
        else:
            put(out, room, cursor, kind)
            put_number(out, room, cursor, cython.cast(cython.ulonglong, number) << 1)
        before = number
        if level == GROUP and number == 7:
            take_number(p, n, cursor)
            put_number(out, room, cursor, 2 * ordinal)
        elif kind == 6 and is_position(level, number):
            value = take_number(p, n, cursor)
            put_number(out, room, cursor, value + 2 * by if value else 0)  # 0 stands for no position
        else:
            inner = OTHER
            if level == GROUP and number == 1:
                inner = CHUNK
            elif level == CHUNK and number == 3:
                inner = META
            copy_value(p, n, out, room, cursor, kind, inner, depth, by, ordinal)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_group(
    p: cython.pointer[cython.const[cython.uchar]],
    n: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
    by: cython.ulonglong,
    ordinal: cython.int,
) -> cython.Py_ssize_t:
    first: cython.int
    number: cython.longlong = 0
    cursor: cython.longlong[3]
    if not cython.compiled:
        cursor = [0] * 3
    cursor[0] = cursor[1] = cursor[2] = 0
    while not cursor[2]:
        first = take(p, n, cursor)
        if first == 0:
            return -1
        number = next_field(p, n, cursor, first, number)
        if number == 4:
            if first & 15 != 9 or take(p, n, cursor) != 28:  # a list of one structure
                return -1
            copy_struct(p, n, out, room, cursor, GROUP, 0, by, ordinal)
            return -1 if cursor[2] else cursor[1]
        copy_value(p, n, out, room, cursor, first & 15, OTHER, 0, 0, 0)
        cursor[1] = 0
    return -1


def moved_group(
    footer: cython.const[cython.uchar][::1], by: cython.ulonglong, ordinal: cython.int, out: cython.uchar[::1]
) -> int:
    """Writes the only row group of a file with that footer to ``out``, its pages ``by`` bytes further behind and its
    number ``ordinal``, or left out where that is negative; how many bytes that takes.

    Raises ValueError where it is none, or there is no room: six times as many bytes as the footer has are enough.
    """
    size: cython.Py_ssize_t
    if len(footer) == 0 or len(out) == 0:
        raise ValueError("a buffer is empty")
    if cython.compiled:
        size = copy_group(cython.address(footer[0]), footer.shape[0], cython.address(out[0]), out.shape[0], by, ordinal)
    else:
        size = copy_group(footer, len(footer), out, len(out), by, ordinal)
    if size < 0:
        raise ValueError("no footer of a single row group")
    return size
