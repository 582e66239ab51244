"""Reads the fields of one record of a v2 batch, and returns the reason if the record is malformed.

short_record.h has a fast path for common records, which gives no reasons.
"""

import cython
from cython.cimports.kseg.kernel.layout.rows import (
    HEADER_KEY,
    HEADER_KEY_SIZE,
    HEADER_VALUE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    VARINT_LENGTH_MASK,
    VARINT_VALUE_SHIFT,
    varint,
)

from kseg.limits import MAX_HEADERS

REASONS = {
    BAD_LENGTH: "the length of a record is no varint",
    TOO_LONG: "the length of a record does not fit the batch",
    BAD_TIMESTAMP: "a timestamp delta is no varlong",
    BAD_OFFSET: "an offset delta is no varint",
    BAD_KEY: "a key length is no varint or does not fit the record",
    BAD_VALUE: "a value length is no varint or does not fit the record",
    BAD_HEADER_COUNT: "a header count is no varint or does not fit the record",
    BAD_HEADER_KEY: "a header key does not fit the record",
    BAD_HEADER_VALUE: "a header value does not fit the record",
    TOO_SHORT_FIELDS: "a record is longer than its fields",
    BYTES_LEFT: "bytes are left after the last record",
    NEGATIVE_COUNT: "the record count is negative",
    TOO_MANY_HEADERS: f"a record has more than {MAX_HEADERS} headers, which kseg does not read",
}


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def varlong_size(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Returns the size of the varlong at i; 0 if it does not end within 10 bytes or before end."""
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
def fitting_size(
    p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t, after: cython.Py_ssize_t
) -> cython.longlong:
    """Returns the size of a key or value at i in the form of `varint`; 0 if its bytes do not fit before ``after``."""
    r: cython.longlong = varint(p, i, after)
    return r if r >> VARINT_VALUE_SHIFT <= after - i - (r & VARINT_LENGTH_MASK) else 0


def read_fields(p, i, end, fields):
    """Reads the fields of the record at i up to its headers, whatever its shape: COMPLETE, or a key of REASONS."""
    at: cython.Py_ssize_t
    after: cython.Py_ssize_t
    used: cython.Py_ssize_t
    size: cython.longlong
    r: cython.longlong = varint(p, i, end)
    if r == 0:
        return BAD_LENGTH
    used = r & VARINT_LENGTH_MASK
    size = r >> VARINT_VALUE_SHIFT
    if size < 6 or size > end - i - used:
        return TOO_LONG
    at = i + used
    after = at + size
    fields.after = after
    fields.attributes = p[at]
    at += 1
    used = varlong_size(p, at, after)
    if used == 0:
        return BAD_TIMESTAMP
    fields.timestamp_delta = varlong(p, at, used)
    at += used
    r = varint(p, at, after)
    if r == 0:
        return BAD_OFFSET
    fields.offset_delta = r >> VARINT_VALUE_SHIFT
    at += r & VARINT_LENGTH_MASK
    r = fitting_size(p, at, after)
    if r == 0:
        return BAD_KEY
    at += r & VARINT_LENGTH_MASK
    fields.key = at
    fields.key_size = r >> VARINT_VALUE_SHIFT
    if fields.key_size > 0:
        at += fields.key_size
    r = fitting_size(p, at, after)
    if r == 0:
        return BAD_VALUE
    at += r & VARINT_LENGTH_MASK
    fields.value = at
    fields.value_size = r >> VARINT_VALUE_SHIFT
    if fields.value_size > 0:
        at += fields.value_size
    r = varint(p, at, after)
    at += r & VARINT_LENGTH_MASK
    size = r >> VARINT_VALUE_SHIFT
    if r == 0 or size < 0 or size > after - at:
        return BAD_HEADER_COUNT
    fields.headers = at
    fields.header_count = size
    return COMPLETE


def read_headers(p, i, end, count, headers, first, store):
    """Reads ``count`` headers at i. Returns the position behind them or -status. ``store``: add rows at ``first``."""
    r: cython.longlong
    size: cython.longlong
    k: cython.longlong
    h: cython.longlong
    for k in range(count):
        r = varint(p, i, end)
        if r == 0:
            return -BAD_HEADER_KEY
        i += r & VARINT_LENGTH_MASK
        size = r >> VARINT_VALUE_SHIFT
        if size < 0 or size > end - i:
            return -BAD_HEADER_KEY
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_KEY] = i
            headers[h + HEADER_KEY_SIZE] = size
        i += size
        r = varint(p, i, end)
        if r == 0:
            return -BAD_HEADER_VALUE
        i += r & VARINT_LENGTH_MASK
        size = r >> VARINT_VALUE_SHIFT
        if size > end - i:
            return -BAD_HEADER_VALUE
        if size < 0:
            size = -1
        if store:
            h = (first + k) * HEADER_WIDTH
            headers[h + HEADER_VALUE] = i
            headers[h + HEADER_VALUE_SIZE] = size
        if size > 0:
            i += size
    return i
