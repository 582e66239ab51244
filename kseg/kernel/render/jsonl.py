"""Records as JSON Lines: one object per line, keys in the order that ``kseg dump --format json`` promises.

Only mandatory escapes are used. Bytes are a string if they are strict UTF-8 (no surrogates, no over-long forms), else
``{"base64":"..."}``; a missing key or value is null. A field that the format lacks is absent, an unset field is null.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import MAGIC_V2
from cython.cimports.kseg.kernel.layout.rows import (
    CHECK_KIND_BITS,
    CHECK_KIND_SHIFT,
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
)
from cython.cimports.kseg.kernel.native.escape import put, put_int, put_near, put_raw
from cython.cimports.kseg.kernel.render.batch_lines import put_json_kind
from cython.cimports.kseg.kernel.render.lines import BASE64_KEYS, BASE64_VALUES, CONTENTS, Line

if cython.compiled:
    from cython.cimports.kseg.kernel.native import escape
    from cython.cimports.kseg.kernel.native.escape import NOT_UTF8, put_base64, put_json

    escape.shuffle_setup()
else:
    from kseg.kernel.native.escape import json_value, put_limited


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_bytes(
    line: cython.pointer[Line],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    as_base64: cython.bint,
    o: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Writes null, a string or the object form. Negative if the output is full."""
    after: cython.Py_ssize_t
    if size < 0:
        return put(line.out, o, b"null")
    if cython.compiled:
        after = NOT_UTF8
        if not as_base64:
            after = put_json(line.out, o, line.limit, line.p + start, size)
        if after == NOT_UTF8:
            o = put(line.out, o, b'{"base64":"')
            after = put_base64(line.out, o, line.limit, line.p + start, size)
            if after >= 0:
                after = put(line.out, after, b'"}')
        return after
    else:
        return put_limited(line.out, o, line.limit, json_value(line.p, start, size, as_base64))


def put_headers(line, row, o):
    headers: cython.pointer[cython.const[cython.longlong]] = line.headers
    k: cython.longlong
    h: cython.Py_ssize_t = line.rows[row + ROW_HEADERS] * HEADER_WIDTH
    o = put(line.out, o, b',"headers":[')
    for k in range(line.rows[row + ROW_HEADER_COUNT]):
        if k:
            o = put(line.out, o, b",")
        o = put(line.out, o, b'{"key":')
        o = put_bytes(line, headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE], False, o)
        if o < 0:
            return o
        if line.flags & CONTENTS:
            o = put(line.out, o, b',"value":')
            o = put_bytes(line, headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE], False, o)
            if o < 0:
                return o
        o = put(line.out, o, b"}")
        h += HEADER_WIDTH
    return put(line.out, o, b"]")


def put_fields(line, row, o):
    """Writes the object of a record without its end; ``row``: its first column. Negative if the output is full."""
    out: cython.pointer[cython.uchar] = line.out
    rows: cython.pointer[cython.const[cython.longlong]] = line.rows
    kind: cython.int = line.kind
    o = put_raw(out, o, line.context.record, line.context.record_size)
    o = put_int(out, o, line.position)
    o = put_raw(out, o, line.context.place, line.context.place_size)
    o = put_near(cython.address(line.counters.offset), out, o, rows[row + ROW_OFFSET])
    if line.magic < MAGIC_V2:
        kind = (rows[row + ROW_CHECK] >> CHECK_KIND_SHIFT) & CHECK_KIND_BITS
    if kind:
        o = put(out, o, b',"timestamp":')
        o = put_near(cython.address(line.counters.timestamp), out, o, rows[row + ROW_TIMESTAMP])
        o = put_json_kind(out, o, kind)
    if line.magic >= MAGIC_V2:
        o = put(out, o, b',"sequence":')
        if rows[row + ROW_SEQUENCE] == -1:
            o = put(out, o, b"null")
        else:
            o = put_near(cython.address(line.counters.sequence), out, o, rows[row + ROW_SEQUENCE])
    o = put(out, o, b',"keySize":')
    o = put_int(out, o, rows[row + ROW_KEY_SIZE])
    o = put(out, o, b',"valueSize":')
    o = put_int(out, o, rows[row + ROW_VALUE_SIZE])
    if line.magic >= MAGIC_V2:
        o = put_headers(line, row, o)
        if o < 0:
            return o
    if line.flags & CONTENTS:
        o = put(out, o, b',"key":')
        o = put_bytes(line, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], line.flags & BASE64_KEYS, o)
        if o < 0:
            return o
        o = put(out, o, b',"value":')
        o = put_bytes(line, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE], line.flags & BASE64_VALUES, o)
    return o


def use_loops(level: cython.int) -> int:
    """For tests: 0 disables the loops of shuffle.h, 1 enables them if available. Returns the available level."""
    if cython.compiled:
        escape.shuffle_setup()
        best: cython.int = escape.can_shuffle
        escape.can_shuffle = min(best, level)
        return best
    return 0
