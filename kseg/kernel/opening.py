"""Lays the records of v2 batches open for loops that look at each of them: rows of records, plain or expanded.

`open_batch` finds the bytes, `read_batch` writes a row (ROW_*) for each record, with HEADERS and CHECK as
`kseg.kernel.rewriting` wants them: where the headers begin and where they end.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import expand_area
    from cython.cimports.kseg.kernel.native import ROW_CHECK, ROW_HEADERS, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
    from cython.cimports.kseg.kernel.plain import read_header
    from cython.cimports.kseg.kernel.records import read_records
else:
    from kseg.kernel.expand import expand_area
    from kseg.kernel.native import ROW_CHECK, ROW_HEADERS, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
    from kseg.kernel.plain import read_header
    from kseg.kernel.records import read_records

COMPILED = cython.compiled

PLAIN, EXPANDED, ROOM, CLOSED = 0, 1, 2, 3
"""What `open_batch` tells: the records lie in the batch itself, or in the room; more room is needed; someone else has
to open it."""

NOT_RISING, OUT_OF_RANGE, TOO_MANY = 101, 102, 103
"""What `read_batch` refuses besides the REASONS of `kseg.kernel.records`."""
REASONS = {
    NOT_RISING: "offset deltas do not rise",
    OUT_OF_RANGE: "an offset delta is outside the batch",
    TOO_MANY: "it counts more records than it has offsets or bytes",
}


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_batch(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    zstd: cython.p_void,
    span: cython.pointer[cython.longlong],
) -> cython.int:
    """PLAIN and so on; where the records begin and end goes into span[0] and span[1]."""
    codec: cython.int = p[at + 22] & 7
    held: cython.Py_ssize_t
    if codec == 0:
        span[0] = at + 61
        span[1] = at + size
        return 0
    if not cython.compiled or out == cython.NULL:
        return 3
    if cython.compiled:
        held = expand_area(codec, 2, p + at + 61, size - 61, out, capacity, zstd)
        if held >= 0:
            span[0] = 0
            span[1] = held
            return 1
        return 2 if held == -2 else 3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_batch(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    payload: cython.pointer[cython.const[cython.uchar]],
    span: cython.pointer[cython.const[cython.longlong]],
    rows: cython.pointer[cython.longlong],
) -> cython.int:
    """Rows of the records of the batch at p[at], which lie in payload[span[0]:span[1]]; 0, or why they make no sense.

    There is room for all that the header counts, which is not negative.
    """
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    k: cython.longlong
    row: cython.Py_ssize_t
    status: cython.int = 0
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    read_header(p, at, batch)
    batch[5] = -1
    if batch[0] > batch[6] + 1:
        return 103
    cursor[0] = cursor[2] = cursor[3] = cursor[4] = cursor[6] = 0
    cursor[1] = span[0]
    cursor[5] = -1
    for k in range(batch[0]):
        row = k * ROW_WIDTH
        if cython.compiled:
            status = read_records(payload, span[1], cursor, batch, rows + row, 1, cython.NULL, -1)
        else:
            status = read_records(payload, span[1], cursor, batch, rows[row:], 1, None, -1)
        if status != 0 and (status != 1 or cursor[2] != 1):
            return status
        rows[row + ROW_HEADERS] = rows[row + ROW_VALUE]
        if rows[row + ROW_VALUE_SIZE] > 0:
            rows[row + ROW_HEADERS] += rows[row + ROW_VALUE_SIZE]
        rows[row + ROW_CHECK] = cursor[1]
    if cursor[4] & 1:
        return 101
    if cursor[4] & 2:
        return 102
    return status
