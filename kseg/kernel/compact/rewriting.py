"""Writes records of a v2 batch and its header (layout: `kseg.formats.record_batch`).

Records are rows (ROW_*). HEADERS and CHECK of a row are the start, including the header count, and the end of the
record's headers, which are copied unchanged. 0 and 0: no headers.
"""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    V2_ATTRIBUTES,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_CRC,
    V2_HEADER_BYTES,
    V2_MAX_TIMESTAMP,
)
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, bytes_out
from cython.cimports.kseg.kernel.layout.rows import (
    ROW_CHECK,
    ROW_HEADERS,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_TIMESTAMP,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    crc32c,
    difference,
    native_setup,
    put_big,
    put_bytes,
    put_varint,
    varint_bytes,
)

native_setup()


def put_record(p, row, at_row, base_offset, base_timestamp, out, at):
    """Writes one record. Returns the position behind it. The caller checks the size of the output."""
    time_delta: cython.longlong = difference(row[at_row + ROW_TIMESTAMP], base_timestamp)
    offset_delta: cython.longlong = row[at_row + ROW_OFFSET] - base_offset
    key_size: cython.longlong = row[at_row + ROW_KEY_SIZE]
    value_size: cython.longlong = row[at_row + ROW_VALUE_SIZE]
    headers: cython.Py_ssize_t = row[at_row + ROW_CHECK] - row[at_row + ROW_HEADERS]
    size: cython.longlong = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta) + varint_bytes(key_size)
    size += varint_bytes(value_size) + (headers if headers else 1)
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    at = put_varint(out, at, size)
    out[at] = 0
    at = put_varint(out, at + 1, time_delta)
    at = put_varint(out, at, offset_delta)
    at = put_varint(out, at, key_size)
    if key_size > 0:
        at = put_bytes(out, at, p, row[at_row + ROW_KEY], key_size)
    at = put_varint(out, at, value_size)
    if value_size > 0:
        at = put_bytes(out, at, p, row[at_row + ROW_VALUE], value_size)
    if headers:
        return put_bytes(out, at, p, row[at_row + ROW_HEADERS], headers)
    out[at] = 0
    return at + 1


def put_records(p, rows, keep, count, base_offset, base_timestamp, out, at):
    """Writes the records, of ``count``, that ``keep`` marks. Returns the position behind them."""
    k: cython.Py_ssize_t
    for k in range(count):
        if keep[k]:
            at = put_record(p, rows, k * ROW_WIDTH, base_offset, base_timestamp, out, at)
    return at


def put_header(out, at, end, p, model, attributes, base_timestamp, max_timestamp, count):
    """Writes the header of the batch [at, end), with offsets, epochs, producer and sequence of the header at p[model].

    The records must be written before, as the checksum covers them.
    """
    put_bytes(out, at, p, model, V2_HEADER_BYTES)
    put_big(out, at + ENTRY_SIZE, end - at - ENTRY_OVERHEAD, 4)
    put_big(out, at + V2_ATTRIBUTES, attributes, 2)
    put_big(out, at + V2_BASE_TIMESTAMP, base_timestamp, 8)
    put_big(out, at + V2_MAX_TIMESTAMP, max_timestamp, 8)
    put_big(out, at + V2_COUNT, count, 4)
    put_big(out, at + V2_CRC, crc32c(0, out, at + V2_ATTRIBUTES, end), 4)


def seal(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    model: cython.const[cython.uchar][::1],
    attributes: cython.longlong,
    base_timestamp: cython.longlong,
    max_timestamp: cython.longlong,
    count: cython.longlong,
) -> None:
    """`put_header` for a batch in ``out``; ``model`` holds the header with the other fields.

    Raises ValueError if a buffer is too short.
    """
    if at < 0 or end - at < V2_HEADER_BYTES or end > len(out) or len(model) < V2_HEADER_BYTES:
        raise ValueError("a buffer is too short")
    put_header(bytes_out(out), at, end, bytes_in(model), 0, attributes, base_timestamp, max_timestamp, count)
