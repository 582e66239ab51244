"""The record lines of kafka-dump-log (4.4), byte for byte.

Their format is that of Kafka's DumpLogSegments.printRecordMetadata and printRecordContents. Keys, values and header
keys appear as Java's ``new String(bytes, UTF_8)`` shows them: U+FFFD for malformed UTF-8.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import MAGIC_V2
from cython.cimports.kseg.kernel.layout.rows import (
    CHECK_VALID_SHIFT,
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
)
from cython.cimports.kseg.kernel.native.escape import put, put_int, put_near
from cython.cimports.kseg.kernel.render.batch_lines import put_bool, put_text_kind
from cython.cimports.kseg.kernel.render.lines import CONTENTS, ESCAPE, SKIP_METADATA, Line

if cython.compiled:
    from cython.cimports.kseg.kernel.native import escape
    from cython.cimports.kseg.kernel.native.escape import put_java, put_visible

    escape.shuffle_setup()
else:
    from kseg.kernel.native.escape import java, put_limited, visible


LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_text(
    line: cython.pointer[Line], start: cython.Py_ssize_t, size: cython.Py_ssize_t, o: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Writes ``size`` bytes from ``start`` on. Negative if the output is full."""
    if cython.compiled:
        if line.flags & ESCAPE:
            return put_visible(line.out, o, line.limit, line.p + start, size)
        return put_java(line.out, o, line.limit, line.p + start, size)
    else:
        shown = visible if line.flags & ESCAPE else java
        return put_limited(line.out, o, line.limit, shown(bytes(line.p[start : start + size])))


def put_metadata(line, row, o):
    """Writes the line of a record up to its key; ``row``: its first column. Negative if the output is full."""
    out: cython.pointer[cython.uchar] = line.out
    rows: cython.pointer[cython.const[cython.longlong]] = line.rows
    k: cython.longlong
    h: cython.Py_ssize_t
    if line.flags & SKIP_METADATA:
        return o
    o = put(out, o, b"| offset: ")
    o = put_near(cython.address(line.counters.offset), out, o, rows[row + ROW_OFFSET])
    o = put_text_kind(out, o, line.kind)
    o = put_near(cython.address(line.counters.timestamp), out, o, rows[row + ROW_TIMESTAMP])
    o = put(out, o, b" keySize: ")
    o = put_int(out, o, rows[row + ROW_KEY_SIZE])
    o = put(out, o, b" valueSize: ")
    o = put_int(out, o, rows[row + ROW_VALUE_SIZE])
    if line.magic < MAGIC_V2:
        o = put(out, o, b" isValid: ")
        o = put_bool(out, o, (rows[row + ROW_CHECK] >> CHECK_VALID_SHIFT) & 1)
        o = put(out, o, b" crc: ")
        return put_int(out, o, rows[row + ROW_CHECK] & LOW_32_BITS)
    o = put(out, o, b" sequence: ")
    o = put_near(cython.address(line.counters.sequence), out, o, rows[row + ROW_SEQUENCE])
    o = put(out, o, b" headerKeys: [")
    h = rows[row + ROW_HEADERS] * HEADER_WIDTH
    for k in range(rows[row + ROW_HEADER_COUNT]):
        if k:
            o = put(out, o, b",")
        o = put_text(line, line.headers[h + HEADER_KEY], line.headers[h + HEADER_KEY_SIZE], o)
        if o < 0:
            return o
        h += HEADER_WIDTH
    return put(out, o, b"]")


def put_contents(line, row, o):
    """Writes the key and the value of a record, unless they are null. Negative if the output is full."""
    out: cython.pointer[cython.uchar] = line.out
    rows: cython.pointer[cython.const[cython.longlong]] = line.rows
    is_first: cython.bint = line.flags & SKIP_METADATA
    if not line.flags & CONTENTS:
        return o
    if rows[row + ROW_KEY_SIZE] >= 0:
        o = put(out, o, b"| key: ") if is_first else put(out, o, b" key: ")
        is_first = False
        o = put_text(line, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], o)
        if o < 0:
            return o
    if rows[row + ROW_VALUE_SIZE] >= 0:
        o = put(out, o, b"| payload: ") if is_first else put(out, o, b" payload: ")
        o = put_text(line, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE], o)
    return o


def use_loops(level: cython.int) -> int:
    """For tests: 0 disables the loops of shuffle.h, 1 enables them if available. Returns the available level."""
    if cython.compiled:
        escape.shuffle_setup()
        best: cython.int = escape.can_shuffle
        escape.can_shuffle = min(best, level)
        return best
    return 0
