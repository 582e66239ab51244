"""Prints keys and values of records of internal topics, decoded by a program.

    coordinators   key: int16 record type, the key's message; value: int16 version, the value's message, or none
    framed         no key; value: uvarint frame version 1, uvarint record type, uvarint version, the message

See `kseg.decoders` for the framings and `kseg.formats.program` for programs. Transaction markers are printed as by
`kseg.formats.control`, with any program.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import MARKER_KEY_BYTES, MARKER_VALUE_BYTES, VERSION_BYTES
from cython.cimports.kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_VALUE, ROW_VALUE_SIZE, be16, be32
from cython.cimports.kseg.kernel.native.escape import put, put_int
from cython.cimports.kseg.kernel.render.schema import NOT_PLAIN, Job, put_name, put_struct, uvarint


def put_message(job, place, o):
    """Prints the message described at a place of the code's tables, from the position of the job."""
    entry: cython.Py_ssize_t = job.code[place]
    if entry == 0:
        return NOT_PLAIN
    job.items = 0
    job.is_switched = False
    job.is_flexible = job.code[entry + MESSAGE_FLEXIBLE] != 0
    o = put_name(job, o, job.code[entry + MESSAGE_LEAD], job.code[entry + MESSAGE_LEAD_SIZE])
    o = put_struct(job, job.code[entry + MESSAGE_STRUCT], o)
    return put(job.out, o, b"}") if o >= 0 else o


def put_prefixed(job, record_type, o):
    """Prints the value of a coordinator's record: an int16 version, then the message."""
    types: cython.longlong = job.code[TYPES]
    version: cython.longlong
    if job.end - job.at < VERSION_BYTES:
        return NOT_PLAIN
    version = be16(job.p, job.at)
    job.at += VERSION_BYTES
    if version < 0 or version >= job.code[VERSIONS]:
        return NOT_PLAIN
    return put_message(job, TABLES + types + record_type * job.code[VERSIONS] + version, o)


def put_framed(job, o):
    """Prints a framed value: uvarint frame version 1, type and version, then the message, without trailing bytes."""
    types: cython.longlong = job.code[TYPES]
    record_type: cython.longlong
    version: cython.longlong
    if uvarint(job) != 1:
        return NOT_PLAIN
    record_type = uvarint(job)
    version = uvarint(job)
    if record_type < 0 or record_type >= types or version < 0 or version >= job.code[VERSIONS]:
        return NOT_PLAIN
    o = put_message(job, TABLES + types + record_type * job.code[VERSIONS] + version, o)
    return NOT_PLAIN if o >= 0 and job.at != job.end else o


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_lead(
    job: cython.pointer[Job], o: cython.Py_ssize_t, is_value: cython.bint, is_bare: cython.bint
) -> cython.Py_ssize_t:
    """Prints the name of a key or value; ``is_bare``: it is the first text of its line."""
    if not job.as_jackson:
        return put(job.out, o, b',"value":') if is_value else put(job.out, o, b',"key":')
    if is_bare:
        o = put(job.out, o, b"|")
    return put(job.out, o, b" payload: ") if is_value else put(job.out, o, b" key: ")


def put_marker(job, rows, row, is_bare, o):
    """Prints a transaction marker; NOT_PLAIN for other control records."""
    key: cython.Py_ssize_t = rows[row + ROW_KEY]
    value: cython.Py_ssize_t = rows[row + ROW_VALUE]
    kind: cython.int
    if (
        rows[row + ROW_KEY_SIZE] < MARKER_KEY_BYTES
        or rows[row + ROW_VALUE_SIZE] < MARKER_VALUE_BYTES
        or be16(job.p, key) < 0
        or be16(job.p, value) < 0
    ):
        return NOT_PLAIN
    kind = be16(job.p, key + VERSION_BYTES)
    if kind != ABORT and kind != COMMIT:
        return NOT_PLAIN
    if job.as_jackson:
        if is_bare:
            return o
        o = put(job.out, o, b" endTxnMarker: ")
        o = put(job.out, o, b"COMMIT") if kind == COMMIT else put(job.out, o, b"ABORT")
        o = put(job.out, o, b" coordinatorEpoch: ")
        return put_int(job.out, o, be32(job.p, value + VERSION_BYTES))
    o = put(job.out, o, b',"control":{"type":')
    o = put(job.out, o, b'"COMMIT"') if kind == COMMIT else put(job.out, o, b'"ABORT"')
    o = put(job.out, o, b',"version":')
    o = put_int(job.out, o, be16(job.p, value))
    o = put(job.out, o, b',"coordinatorEpoch":')
    o = put_int(job.out, o, be32(job.p, value + VERSION_BYTES))
    return put(job.out, o, b"}")


def put_decoded(job, rows, row, is_bare, o):
    """Prints key and value of the record whose columns begin at ``row``, or the fields of a transaction marker.

    Returns the position behind it, OUTPUT_FULL or NOT_PLAIN as in `kseg.kernel.render.schema`.
    """
    record_type: cython.longlong
    if job.is_control:
        return put_marker(job, rows, row, is_bare, o)
    if job.code[FRAMING] != COORDINATOR:
        if rows[row + ROW_VALUE_SIZE] < 0:
            return NOT_PLAIN
        if not job.as_jackson:
            o = put(job.out, o, b',"key":null')
        job.at = rows[row + ROW_VALUE]
        job.end = job.at + rows[row + ROW_VALUE_SIZE]
        return put_framed(job, put_lead(job, o, True, is_bare))
    if rows[row + ROW_KEY_SIZE] < VERSION_BYTES:
        return NOT_PLAIN
    record_type = be16(job.p, rows[row + ROW_KEY])
    if record_type < 0 or record_type >= job.code[TYPES]:
        return NOT_PLAIN
    job.at = rows[row + ROW_KEY] + VERSION_BYTES
    job.end = rows[row + ROW_KEY] + rows[row + ROW_KEY_SIZE]
    o = put_message(job, TABLES + record_type, put_lead(job, o, False, is_bare))
    if o < 0:
        return o
    o = put_lead(job, o, True, False)
    if rows[row + ROW_VALUE_SIZE] < 0:
        return put(job.out, o, b"<DELETE>") if job.as_jackson else put(job.out, o, b"null")
    job.at = rows[row + ROW_VALUE]
    job.end = job.at + rows[row + ROW_VALUE_SIZE]
    return put_prefixed(job, record_type, o)
