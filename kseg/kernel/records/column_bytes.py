"""Copies the keys, values or headers of rows end to end, in the layout of Apache Arrow. Selects rows by their key.

Ends are Arrow's offsets: int32, one more than there are rows. ``valid`` as in `kseg.kernel.records.columns`.
Both functions raise ValueError if a buffer other than ``data`` is too short, or if a row points outside the payload.
"""

import cython
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, bytes_out, int32s_out, int64s_in, int64s_out
from cython.cimports.kseg.kernel.layout.rows import INT32_MAX, ROW_KEY, ROW_KEY_SIZE, ROW_WIDTH

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy


DATA_FULL = cython.declare(cython.Py_ssize_t, -1)
OUTSIDE = cython.declare(cython.Py_ssize_t, -2)


def gather_bytes(payload, length, fields, count, width, data, capacity, ends, valid, at):
    """`gather` of fields that are ``width`` columns apart; OUTSIDE if one points outside the payload."""
    k: cython.Py_ssize_t
    position: cython.longlong
    size: cython.longlong
    filled: cython.Py_ssize_t = ends[at]
    for k in range(count):
        position = fields[k * width]
        size = fields[k * width + 1]
        if size >= 0:
            if position < 0 or size > length or position > length - size:
                return OUTSIDE
            if size > capacity - filled:
                return DATA_FULL
            if size > 0:
                if cython.compiled:
                    memcpy(data + filled, payload + position, size)
                else:
                    data[filled : filled + size] = payload[position : position + size]
                filled += size
            valid[(at + k) >> 3] |= 1 << ((at + k) & 7)
        ends[at + k + 1] = cython.cast(cython.int, filled)
    return filled


def gather(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    field: cython.Py_ssize_t,
    data: cython.uchar[::1],
    ends: cython.int[::1],
    valid: cython.uchar[::1],
    at: cython.Py_ssize_t,
) -> int:
    """Copies the bytes of ``field`` of the rows: a column of positions in ``payload``, the next column has the sizes.

    They are written from data[ends[at]] on, their ends to ends[at + 1] and on. Returns the last end; -1 if ``data`` is
    too short, and then the written bytes are undefined. ``width``: columns of the rows, of records or headers.
    """
    found: cython.Py_ssize_t
    capacity: cython.Py_ssize_t = len(data)
    length: cython.Py_ssize_t = len(payload)
    if not (0 <= field < width - 1 and 0 <= first <= stop <= len(rows) // width):
        raise ValueError("no such rows")
    check_capacity(len(ends), at + 1, stop - first)
    check_capacity(8 * len(valid), at, stop - first)
    if ends[at] < 0 or ends[at] > capacity or capacity > INT32_MAX:
        raise ValueError("no such place in the data")
    if first == stop:
        return ends[at]
    p, fields, out, out_ends, bits = (
        bytes_in(payload), int64s_in(rows[first * width + field :]), bytes_out(data), int32s_out(ends), bytes_out(valid)
    )  # fmt: skip
    with cython.nogil:
        found = gather_bytes(p, length, fields, stop - first, width, out, capacity, out_ends, bits, at)
    if found == OUTSIDE:
        raise ValueError("a row points outside the payload")
    return found


def keep_rows_with_key(payload, length, rows, count, key, key_size):
    """`keep_key` without the GIL; OUTSIDE if a key is outside the payload."""
    k: cython.Py_ssize_t
    f: cython.Py_ssize_t
    at: cython.Py_ssize_t
    position: cython.longlong
    kept: cython.Py_ssize_t = 0
    for k in range(count):
        at = k * ROW_WIDTH
        if rows[at + ROW_KEY_SIZE] != key_size:
            continue
        position = rows[at + ROW_KEY]
        if position < 0 or key_size > length or position > length - key_size:
            return OUTSIDE
        if cython.compiled:
            if key_size and memcmp(payload + position, key, key_size) != 0:
                continue
        elif payload[position : position + key_size] != key[:key_size]:
            continue
        if kept != k:
            for f in range(ROW_WIDTH):
                rows[kept * ROW_WIDTH + f] = rows[at + f]
        kept += 1
    return kept


def keep_key(
    payload: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    key: cython.const[cython.uchar][::1],
) -> int:
    """Moves the rows with this key to the front. Returns their number. A null key equals no key."""
    kept: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(payload)
    size: cython.Py_ssize_t = len(key)
    if count < 0 or count > len(rows) // ROW_WIDTH:
        raise ValueError("no such rows")
    if count == 0:
        return 0
    p, out, wanted = bytes_in(payload), int64s_out(rows), bytes_in(key)
    with cython.nogil:
        kept = keep_rows_with_key(p, length, out, count, wanted, size)
    if kept == OUTSIDE:
        raise ValueError("a row points outside the payload")
    return kept


def check_capacity(length, at, count):
    if at < 0 or count < 0 or at > length - count:
        raise ValueError("no such place in the column")
