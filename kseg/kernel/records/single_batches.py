"""Writes records as v2 batches of one record each, as Kafka's cleaner and down-conversion do with plain messages."""

import cython
from cython.cimports.kseg.kernel.compact.rewriting import put_header
from cython.cimports.kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OVERHEAD,
    V2_BASE_TIMESTAMP,
    V2_HEADER_BYTES,
    V2_LAST_OFFSET_DELTA,
)
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, int64s_in
from cython.cimports.kseg.kernel.layout.rows import ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH, put_big
from cython.cimports.kseg.kernel.records.building import AreaWriter, begin_area, write_records

MAX_FIELD_BYTES = cython.declare(cython.Py_ssize_t, 24)  # lengths, deltas and attributes of a record without headers
LARGEST_SIZE = cython.declare(cython.longlong, 0x7FFFFFFF)


def write_batches(area, p, rows, headers, count, attributes):
    """Returns the number of bytes written, -1 if a batch does not fit."""
    i: cython.Py_ssize_t
    k: cython.int
    at: cython.Py_ssize_t = 0
    model: cython.uchar[61]
    if not cython.compiled:
        model = [0] * V2_HEADER_BYTES
    for k in range(V2_HEADER_BYTES):
        model[k] = 255  # -1: no leader epoch, no producer
    model[ENTRY_MAGIC] = 2
    for k in range(V2_LAST_OFFSET_DELTA, V2_BASE_TIMESTAMP):
        model[k] = 0
    area.limit = LARGEST_SIZE
    for i in range(count):
        if area.capacity - at < V2_HEADER_BYTES:
            return -1
        begin_area(area, at + V2_HEADER_BYTES, rows[i * ROW_WIDTH + ROW_OFFSET])
        if write_records(area, p, rows, headers, i, i + 1) == i or area.end - at - ENTRY_OVERHEAD > LARGEST_SIZE:
            return -1
        put_header(area.out, at, area.end, model, 0, attributes, area.base_timestamp, area.largest_timestamp, 1)
        put_big(area.out, at, area.base_offset, 8)
        at = area.end
    return at


def max_bytes(rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t) -> int:
    """Returns an upper bound of the size of ``count`` records without headers as batches.

    Raises ValueError if there are no such rows.
    """
    i: cython.Py_ssize_t
    size: cython.longlong = 0
    if count < 0 or count * ROW_WIDTH > len(rows):
        raise ValueError("no such rows")
    for i in range(count):
        size += V2_HEADER_BYTES + MAX_FIELD_BYTES
        if rows[i * ROW_WIDTH + ROW_KEY_SIZE] > 0:
            size += rows[i * ROW_WIDTH + ROW_KEY_SIZE]
        if rows[i * ROW_WIDTH + ROW_VALUE_SIZE] > 0:
            size += rows[i * ROW_WIDTH + ROW_VALUE_SIZE]
    return size


def single_batches(
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    attributes: cython.int,
    out: cython.uchar[::1],
) -> int:
    """Writes the first rows (ROW_*, positions in ``payload``) to ``out``, each as a batch with these attributes.

    Producer and leader epoch are unset. Returns the number of bytes written. Raises ValueError if ``out`` is too short,
    or if a batch would exceed its length field.
    """
    done: cython.Py_ssize_t
    area: AreaWriter
    p: cython.pointer[cython.const[cython.uchar]] = bytes_in(payload)
    row: cython.pointer[cython.const[cython.longlong]] = int64s_in(rows)
    header: cython.pointer[cython.const[cython.longlong]] = int64s_in(headers)
    if count < 0 or count * ROW_WIDTH > len(rows) or len(headers) == 0:
        raise ValueError("no such rows")
    if count == 0:
        return 0
    if len(payload) == 0 or len(out) == 0:
        raise ValueError("a buffer is too short")
    area = AreaWriter(out)
    with cython.nogil:
        done = write_batches(area, p, row, header, count, attributes)
    if done < 0:
        raise ValueError("a batch does not fit")
    return done
