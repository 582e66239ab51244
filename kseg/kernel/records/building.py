"""Encodes rows of records as the record area of a v2 batch, or as a message set of v0 or v1."""

import cython
from cython.cimports.kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OVERHEAD,
    LEGACY_CRC,
    V0_HEADER_BYTES,
    V1_HEADER_BYTES,
)
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, bytes_out, int64s_in
from cython.cimports.kseg.kernel.layout.rows import (
    HEADER_KEY,
    HEADER_KEY_SIZE,
    HEADER_VALUE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    INT32_MAX,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_KEY,
    ROW_KEY_SIZE,
    ROW_OFFSET,
    ROW_TIMESTAMP,
    ROW_VALUE,
    ROW_VALUE_SIZE,
    ROW_WIDTH,
    crc32,
    difference,
    native_setup,
    put_big,
    put_bytes,
    put_varint,
    varint_bytes,
)

# Of the sizes of key and value of a v0 or v1 message.
SIZES_BYTES = cython.declare(cython.longlong, 8)
# Length of the longest varint before a record.
MAX_LENGTH_BYTES = cython.declare(cython.longlong, 5)

native_setup()


class AreaWriter:
    """The output buffer for the records of one batch, kept between calls.

    `use` sets the buffer, `begin` starts a batch. Offsets are relative to ``base_offset``, timestamps (ms) to
    ``base_timestamp``, the first record's unless ``is_base_given``. ``end``: bytes written. ``count`` of records
    written, ``last_offset`` of the last one, their ``largest_timestamp``. Only the first record may exceed ``limit``
    bytes. ``needed``: size of the buffer that the next record requires, 0 if it is large enough.
    """

    def __init__(self, out):
        self.end = 0
        self.use(out)
        self.begin(0, 0, None)

    def use(self, out: cython.uchar[::1]) -> None:
        """Sets the buffer, which must contain the bytes written so far. Raises ValueError if it is too short."""
        if len(out) == 0 or len(out) < self.end:
            raise ValueError("a buffer is too short")
        self._out = out
        self.out, self.capacity = bytes_out(out), len(out)

    def begin(self, base_offset, limit, base_timestamp) -> None:
        """Starts a batch. ``base_timestamp`` None: the timestamp of the first record."""
        begin_area(self, 0, base_offset)
        self.limit = limit
        self.largest_timestamp = -1
        self.is_base_given = base_timestamp is not None
        self.base_timestamp = -1 if base_timestamp is None else base_timestamp


def begin_area(area, end, base_offset):
    """Starts a batch without records at byte ``end`` of the buffer, without a base timestamp."""
    area.end = end
    area.base_offset = base_offset
    area.base_timestamp = area.largest_timestamp = area.last_offset = 0
    area.count = area.needed = 0
    area.is_base_given = False


def body_size(rows, row, headers, time_delta, offset_delta):
    """Returns the size of a record without its length field."""
    key_size: cython.longlong = rows[row + ROW_KEY_SIZE]
    value_size: cython.longlong = rows[row + ROW_VALUE_SIZE]
    count: cython.longlong = rows[row + ROW_HEADER_COUNT]
    size: cython.longlong = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta)
    h: cython.Py_ssize_t
    k: cython.longlong
    size += varint_bytes(key_size) + varint_bytes(value_size) + varint_bytes(count)
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    for k in range(count):
        h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
        size += varint_bytes(headers[h + HEADER_KEY_SIZE]) + headers[h + HEADER_KEY_SIZE]
        size += varint_bytes(headers[h + HEADER_VALUE_SIZE])
        if headers[h + HEADER_VALUE_SIZE] > 0:
            size += headers[h + HEADER_VALUE_SIZE]
    return size


def write_records(area, p, rows, headers, first, stop):
    """`add_records` without the GIL."""
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    h: cython.Py_ssize_t
    k: cython.longlong
    out: cython.pointer[cython.uchar] = area.out
    o: cython.Py_ssize_t = area.end
    size: cython.longlong
    time_delta: cython.longlong
    offset_delta: cython.longlong
    timestamp: cython.longlong
    area.needed = 0
    for i in range(first, stop):
        row = i * ROW_WIDTH
        timestamp = rows[row + ROW_TIMESTAMP]
        if area.count == 0:
            area.largest_timestamp = timestamp
            if not area.is_base_given:
                area.base_timestamp = timestamp
        time_delta = difference(timestamp, area.base_timestamp)
        offset_delta = difference(rows[row + ROW_OFFSET], area.base_offset)
        if offset_delta < 0 or offset_delta > INT32_MAX:
            return i
        size = body_size(rows, row, headers, time_delta, offset_delta)
        if area.count and o + size + varint_bytes(size) > area.limit:
            return i
        if size + MAX_LENGTH_BYTES > area.capacity - o:
            area.needed = o + size + MAX_LENGTH_BYTES
            return i
        o = put_varint(out, o, size)
        out[o] = 0
        o = put_varint(out, o + 1, time_delta)
        o = put_varint(out, o, offset_delta)
        o = put_varint(out, o, rows[row + ROW_KEY_SIZE])
        o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
        o = put_varint(out, o, rows[row + ROW_VALUE_SIZE])
        o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
        o = put_varint(out, o, rows[row + ROW_HEADER_COUNT])
        for k in range(rows[row + ROW_HEADER_COUNT]):
            h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
            o = put_varint(out, o, headers[h + HEADER_KEY_SIZE])
            o = put_bytes(out, o, p, headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE])
            o = put_varint(out, o, headers[h + HEADER_VALUE_SIZE])
            o = put_bytes(out, o, p, headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE])
        area.end = o
        area.count += 1
        area.last_offset = rows[row + ROW_OFFSET]
        if timestamp > area.largest_timestamp:
            area.largest_timestamp = timestamp
    return stop


def write_messages(area, p, rows, first, stop, magic, attributes, base):
    """`add_messages` without the GIL."""
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    out: cython.pointer[cython.uchar] = area.out
    o: cython.Py_ssize_t = area.end
    size: cython.longlong
    timestamp: cython.longlong
    area.needed = 0
    for i in range(first, stop):
        row = i * ROW_WIDTH
        timestamp = rows[row + ROW_TIMESTAMP]
        if area.count == 0:
            area.base_timestamp = timestamp
            area.largest_timestamp = timestamp
        size = (V1_HEADER_BYTES if magic else V0_HEADER_BYTES) + SIZES_BYTES
        if rows[row + ROW_KEY_SIZE] > 0:
            size += rows[row + ROW_KEY_SIZE]
        if rows[row + ROW_VALUE_SIZE] > 0:
            size += rows[row + ROW_VALUE_SIZE]
        if size - ENTRY_OVERHEAD > INT32_MAX or (area.count and o + size > area.limit):
            return i
        if size > area.capacity - o:
            area.needed = o + size
            return i
        start = o
        o = put_big(out, o, difference(rows[row + ROW_OFFSET], base), 8)
        o = put_big(out, o, size - ENTRY_OVERHEAD, 4) + 4
        out[o] = magic
        out[o + 1] = attributes
        o += 2
        if magic:
            o = put_big(out, o, timestamp, 8)
        o = put_big(out, o, rows[row + ROW_KEY_SIZE], 4)
        o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
        o = put_big(out, o, rows[row + ROW_VALUE_SIZE], 4)
        o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
        put_big(out, start + LEGACY_CRC, crc32(0, out, start + ENTRY_MAGIC, o), 4)
        area.end = o
        area.count += 1
        area.last_offset = rows[row + ROW_OFFSET]
        if timestamp > area.largest_timestamp:
            area.largest_timestamp = timestamp
    return stop


def add_records(
    area: AreaWriter,
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    headers: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> int:
    """Appends the rows ``first`` to ``stop`` (ROW_*, positions in ``payload``) as records of a v2 batch.

    Returns the first row that is not written: ``stop``, or a row that exceeds the limit, the buffer, or the offsets of
    a batch with this base offset. Raises ValueError if there are no such rows.
    """
    done: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]] = bytes_in(payload)
    row: cython.pointer[cython.const[cython.longlong]] = int64s_in(rows)
    header: cython.pointer[cython.const[cython.longlong]] = int64s_in(headers)
    if not 0 <= first <= stop <= len(rows) // ROW_WIDTH:
        raise ValueError("no such rows")
    with cython.nogil:
        done = write_records(area, p, row, header, first, stop)
    return done


def add_messages(
    area: AreaWriter,
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.int,
    attributes: cython.int,
    base: cython.longlong,
) -> int:
    """`add_records` for messages of magic 0 or 1 with these attributes. ``base`` is subtracted from offsets."""
    done: cython.Py_ssize_t
    p: cython.pointer[cython.const[cython.uchar]] = bytes_in(payload)
    row: cython.pointer[cython.const[cython.longlong]] = int64s_in(rows)
    if not 0 <= first <= stop <= len(rows) // ROW_WIDTH:
        raise ValueError("no such rows")
    if magic not in (0, 1):
        raise ValueError("no such magic")
    with cython.nogil:
        done = write_messages(area, p, row, first, stop, magic, attributes, base)
    return done
