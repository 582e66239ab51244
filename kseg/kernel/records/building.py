"""Writes rows of records (ROW_*): as the record area of a v2 batch, as batches of one record, as messages v0 or v1."""

import cython
from cython import Py_ssize_t, bint, longlong, void
from cython.cimports.kseg.kernel.records.records import content_bytes, header_bytes

# Writes records of a v2 batch and its header (layout: `kseg.formats.record_batch`).
#
# Records are rows (ROW_*). A row without header rows has a HEADER_COUNT of -1; HEADERS and CHECK are the start,
# including the header count, and the end of the record's headers, which are copied unchanged.

native_setup()

NO_FIELD = cython.declare(cython.uchar, 255)  # each byte of -1


def record_size(
    rows: Columns, row: Py_ssize_t, headers: Columns, time_delta: longlong, offset_delta: longlong
) -> longlong:
    """Returns the size of a record without its length field."""
    key_size: longlong = rows[row + ROW_KEY_SIZE]
    value_size: longlong = rows[row + ROW_VALUE_SIZE]
    count: longlong = rows[row + ROW_HEADER_COUNT]
    size: longlong = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta)
    size += varint_bytes(key_size) + varint_bytes(value_size) + content_bytes(rows, row)
    if count < 0:
        return size + rows[row + ROW_CHECK] - rows[row + ROW_HEADERS]
    for k in range(count):
        h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
        size += varint_bytes(headers[h + HEADER_KEY_SIZE]) + varint_bytes(headers[h + HEADER_VALUE_SIZE])
    return size + varint_bytes(count) + header_bytes(headers, rows[row + ROW_HEADERS], count)


def put_record(
    out: OutBytes, o: Py_ssize_t, p: Bytes, rows: Columns, row: Py_ssize_t, headers: Columns, time_delta: longlong,
    offset_delta: longlong, size: longlong,
) -> Py_ssize_t:  # fmt: skip
    """Writes a record of `record_size`. Returns the position behind it. The caller checks the size of the output."""
    o = put_varint(out, o, size)
    out[o] = 0
    o = put_varint(out, o + 1, time_delta)
    o = put_varint(out, o, offset_delta)
    o = put_varint(out, o, rows[row + ROW_KEY_SIZE])
    o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
    o = put_varint(out, o, rows[row + ROW_VALUE_SIZE])
    o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
    if rows[row + ROW_HEADER_COUNT] < 0:
        return put_bytes(out, o, p, rows[row + ROW_HEADERS], rows[row + ROW_CHECK] - rows[row + ROW_HEADERS])
    o = put_varint(out, o, rows[row + ROW_HEADER_COUNT])
    for k in range(rows[row + ROW_HEADER_COUNT]):
        h = (rows[row + ROW_HEADERS] + k) * HEADER_WIDTH
        o = put_varint(out, o, headers[h + HEADER_KEY_SIZE])
        o = put_bytes(out, o, p, headers[h + HEADER_KEY], headers[h + HEADER_KEY_SIZE])
        o = put_varint(out, o, headers[h + HEADER_VALUE_SIZE])
        o = put_bytes(out, o, p, headers[h + HEADER_VALUE], headers[h + HEADER_VALUE_SIZE])
    return o


def put_records(
    p: Bytes, rows: Columns, keep: Bytes, count: longlong, base_offset: longlong, base_timestamp: longlong,
    out: OutBytes, o: Py_ssize_t,
) -> Py_ssize_t:  # fmt: skip
    """Writes the records, of ``count``, that ``keep`` marks. Returns the position behind them."""
    for k in range(count):
        row = k * ROW_WIDTH
        if keep[k]:
            time_delta = difference(rows[row + ROW_TIMESTAMP], base_timestamp)
            offset_delta = rows[row + ROW_OFFSET] - base_offset
            size = record_size(rows, row, cython.NULL, time_delta, offset_delta)
            o = put_record(out, o, p, rows, row, cython.NULL, time_delta, offset_delta, size)
    return o


def put_header(
    out: OutBytes, at: Py_ssize_t, end: Py_ssize_t, p: Bytes, model: Py_ssize_t, attributes: longlong,
    base_timestamp: longlong, max_timestamp: longlong, count: longlong,
) -> void:  # fmt: skip
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


def put_single_header(
    out: OutBytes, at: Py_ssize_t, end: Py_ssize_t, offset: longlong, attributes: longlong, base_timestamp: longlong,
    max_timestamp: longlong,
) -> void:  # fmt: skip
    """`put_header` of a batch of one record, without leader epoch and producer."""
    model = cython.declare(cython.uchar[V2_HEADER_BYTES])
    for k in range(V2_HEADER_BYTES):
        model[k] = 0 if V2_LAST_OFFSET_DELTA <= k < V2_BASE_TIMESTAMP else NO_FIELD
    put_big(model, ENTRY_OFFSET, offset, 8)
    model[ENTRY_MAGIC] = MAGIC_V2
    put_header(out, at, end, model, 0, attributes, base_timestamp, max_timestamp, 1)


def seal(
    out: BytesOut,
    at: Py_ssize_t,
    end: Py_ssize_t,
    model: BytesIn,
    attributes: longlong,
    base_timestamp: longlong,
    max_timestamp: longlong,
    count: longlong,
) -> None:
    """`put_header` for a batch in ``out``; ``model`` holds the header with the other fields.

    Raises ValueError if a buffer is too short.
    """
    if at < 0 or end - at < V2_HEADER_BYTES or end > len(out) or len(model) < V2_HEADER_BYTES:
        raise ValueError("a buffer is too short")
    put_header(bytes_out(out), at, end, bytes_in(model), 0, attributes, base_timestamp, max_timestamp, count)


MAX_AREA_BYTES = INT32_MAX - V2_HEADER_BYTES
INITIAL_BYTES = 64 << 10


class Area:
    """Collects the records of one batch: `add` appends as many as fit, `take` returns the bytes.

    ``magic`` 2: a record area. 0 or 1: messages with ``attributes``; the offsets of v1 messages that will be compressed
    (``is_relative``) are relative to the first. ``initial_bytes``: size of the buffer, which grows.

    Offsets are relative to ``base_offset``, timestamps (ms) to ``base_timestamp``, the first record's unless
    ``is_base_given``. ``end``: bytes written. ``count`` of records written, ``last_offset`` of the last one, their
    ``largest_timestamp``. ``needed``: size of the buffer that the next record requires, 0 if it is large enough.
    """

    def __init__(self, magic, is_relative=False, attributes=0, initial_bytes=INITIAL_BYTES):
        if not 0 <= magic <= MAGIC_V2:
            raise ValueError("no such magic")
        self.magic, self.attributes = magic, attributes
        self.is_relative = is_relative and magic == 1
        self.end = 0
        self.grow(initial_bytes)
        self.begin(0)

    def begin(self, base_offset, limit=MAX_AREA_BYTES, base_timestamp=None) -> None:
        """Starts a batch with that base offset. Beyond ``limit`` bytes only a first record is accepted.

        ``base_timestamp`` is in ms; None for the first record's timestamp.
        """
        self.end = self.count = self.needed = self.last_offset = 0
        self.base_offset, self.limit = base_offset, limit
        self.largest_timestamp = -1
        self.is_base_given = base_timestamp is not None
        self.base_timestamp = -1 if base_timestamp is None else base_timestamp

    def grow(self, size) -> None:
        """Moves the bytes written so far to a buffer of at least ``size`` bytes."""
        wider = bytearray(size)
        wider[: self.end] = self._buffer[: self.end] if self.end else b""
        self._buffer, self.out, self.capacity = wider, bytes_out(wider), size

    def add(self, found, first: Py_ssize_t, stop: Py_ssize_t) -> int:
        """Appends the rows ``first`` to ``stop`` of `kseg.formats.rows.Rows`.

        Returns the first row that is not written: ``stop``, or a row that exceeds the limit, or the offsets of a batch
        with this base offset. Raises ValueError if there are no such rows.
        """
        payload: BytesIn = found.payload
        columns: Int64sIn = found.rows
        headers: Int64sIn = found.headers
        if not 0 <= first <= stop <= len(columns) // ROW_WIDTH:
            raise ValueError("no such rows")
        p, rows, header_rows = bytes_in(payload), int64s_in(columns), int64s_in(headers)
        while True:
            with cython.nogil:
                first = write_rows(self, p, rows, header_rows, first, stop)
            if self.needed == 0 or self.needed > MAX_AREA_BYTES:
                return first
            self.grow(max(self.needed, 2 * self.capacity))

    def take(self) -> bytes:
        """Returns a copy of the bytes."""
        return bytes(self._buffer[: self.end])


def write_rows(
    area: Area, p: Bytes, rows: Columns, headers: Columns, first: Py_ssize_t, stop: Py_ssize_t
) -> Py_ssize_t:
    """`Area.add` without the GIL, as far as the buffer suffices."""
    out: OutBytes = area.out
    base: longlong = area.base_offset if area.is_relative or area.magic == MAGIC_V2 else 0
    fits: bint
    area.needed = 0
    for i in range(first, stop):
        row = i * ROW_WIDTH
        timestamp = rows[row + ROW_TIMESTAMP]
        if area.count == 0:
            area.largest_timestamp = timestamp
            if not area.is_base_given:
                area.base_timestamp = timestamp
        time_delta = difference(timestamp, area.base_timestamp)
        offset_delta = difference(rows[row + ROW_OFFSET], base)
        if area.magic == MAGIC_V2:
            size = record_size(rows, row, headers, time_delta, offset_delta)
            whole = size + varint_bytes(size)
            fits = 0 <= offset_delta <= INT32_MAX
        else:
            size = (V1_HEADER_BYTES if area.magic else V0_HEADER_BYTES) + SIZES_BYTES + content_bytes(rows, row)
            whole = size
            fits = size - ENTRY_OVERHEAD <= INT32_MAX
        if not fits or (area.count and area.end + whole > area.limit):
            return i
        if whole > area.capacity - area.end:
            area.needed = area.end + whole
            return i
        if area.magic == MAGIC_V2:
            area.end = put_record(out, area.end, p, rows, row, headers, time_delta, offset_delta, size)
        else:
            area.end = put_message(area, p, rows, row, offset_delta, size)
        area.count += 1
        area.last_offset = rows[row + ROW_OFFSET]
        if timestamp > area.largest_timestamp:
            area.largest_timestamp = timestamp
    return stop


def put_message(area: Area, p: Bytes, rows: Columns, row: Py_ssize_t, offset: longlong, size: longlong) -> Py_ssize_t:
    """Writes a message of ``size`` bytes at the end of the area. Returns the position behind it."""
    out: OutBytes = area.out
    o: Py_ssize_t = put_big(out, area.end, offset, 8)
    o = put_big(out, o, size - ENTRY_OVERHEAD, 4) + CRC_BYTES
    o = put_big(out, o, area.magic, 1)
    o = put_big(out, o, area.attributes, 1)
    if area.magic:
        o = put_big(out, o, rows[row + ROW_TIMESTAMP], 8)
    o = put_big(out, o, rows[row + ROW_KEY_SIZE], 4)
    o = put_bytes(out, o, p, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE])
    o = put_big(out, o, rows[row + ROW_VALUE_SIZE], 4)
    o = put_bytes(out, o, p, rows[row + ROW_VALUE], rows[row + ROW_VALUE_SIZE])
    put_big(out, area.end + LEGACY_CRC, crc32(0, out, area.end + ENTRY_MAGIC, o), 4)
    return o


# Writes records as v2 batches of one record each, as Kafka's cleaner and down-conversion do with plain messages.

MAX_FIELD_BYTES = cython.declare(Py_ssize_t, 24)  # lengths, deltas and attributes of a record without headers


def max_bytes(rows: Int64sIn, count: Py_ssize_t) -> int:
    """Returns an upper bound of the size of ``count`` records without headers as batches.

    Raises ValueError if there are no such rows.
    """
    size: longlong = 0
    if count < 0 or count * ROW_WIDTH > len(rows):
        raise ValueError("no such rows")
    row: Columns = int64s_in(rows)
    for i in range(count):
        size += V2_HEADER_BYTES + MAX_FIELD_BYTES + content_bytes(row, i * ROW_WIDTH)
    return size


def single_batches(
    payload: BytesIn, rows: Int64sIn, headers: Int64sIn, count: Py_ssize_t, attributes: cython.int, out: BytesOut
) -> int:
    """Writes the first rows (ROW_*, positions in ``payload``) to ``out``, each as a batch with these attributes.

    Producer and leader epoch are unset. Returns the number of bytes written. Raises ValueError if ``out`` is too short,
    or if a batch would exceed its length field.
    """
    at: Py_ssize_t = 0
    capacity: Py_ssize_t = len(out)
    if count < 0 or count * ROW_WIDTH > len(rows) or len(headers) == 0 or (count > 0 and len(payload) == 0):
        raise ValueError("a buffer is too short")
    p, row, header, to = bytes_in(payload), int64s_in(rows), int64s_in(headers), bytes_out(out)
    with cython.nogil:
        for i in range(count):
            one = i * ROW_WIDTH
            size = record_size(row, one, header, 0, 0)
            whole = V2_HEADER_BYTES + varint_bytes(size) + size
            if whole > capacity - at or whole - ENTRY_OVERHEAD > INT32_MAX:
                at = -1
                break
            end = put_record(to, at + V2_HEADER_BYTES, p, row, one, header, 0, 0, size)
            time = row[one + ROW_TIMESTAMP]
            put_single_header(to, at, end, row[one + ROW_OFFSET], attributes, time, time)
            at = end
    if at < 0:
        raise ValueError("a batch does not fit")
    return at
