"""Writes columns of records as lines of CSV."""

import cython
from cython.cimports.kseg.kernel.layout.rows import bytes_in, bytes_out
from cython.cimports.kseg.kernel.native import escape
from cython.cimports.kseg.kernel.native.escape import put, put_base64, put_csv, put_int, put_raw

escape.shuffle_setup()


MARGIN = cython.declare(cython.Py_ssize_t, 128)  # KSEG_STEP of escape.h
KAFKA_CREATE_TIME = cython.declare(cython.int, 0)  # ids of Kafka's TimestampType
KAFKA_APPEND_TIME = cython.declare(cython.int, 1)
NUMBERS = cython.declare(cython.Py_ssize_t, 512)  # of a record: numbers, commas, type names and margins


def is_set(bits, i):
    return (bits[i >> 3] >> (i & 7)) & 1


def put_field(out, o, text, start, size, limit):
    """Writes a key or value. The output must have twice its size and a margin."""
    end: cython.Py_ssize_t
    end = put_csv(out, o, text, start, size)
    if end < 0:
        o = put(out, o, b'"{""base64"":""')
        o = put_base64(out, o, limit, text, start, size)
        end = put(out, o, b'""}"')
    return end


class TextColumn:
    """Texts: entry i is ``data`` between ends[i] and ends[i + 1], null where bit i of ``valid`` is 0."""

    def __init__(self, data, ends, valid, count):
        self.data, self.ends, self.valid = data, ends, valid
        self.p = bytes_in(self.data)
        if len(ends) <= count or 8 * len(valid) < count or (count >= 0 and ends[count] > len(data)):
            raise ValueError("a column is too short")


class CsvLines:
    """Lines of ``count`` records, each behind ``place``; columns are those of `kseg.export.chunk.Chunk`.

    ``written``: bytes used of the output. ``needed``: free bytes that the next line requires, 0 if they suffice.
    """

    def __init__(self, place, count, offsets, times, timed, kinds, keys: TextColumn, values: TextColumn, header_ends):
        self.place, self.count, self.keys, self.values = place, count, keys, values
        self.offsets, self.times, self.timed, self.kinds, self.header_ends = offsets, times, timed, kinds, header_ends
        self.written = self.needed = 0
        if not 0 <= count < len(header_ends) or min(len(offsets), len(times), len(kinds), 8 * len(timed)) < count:
            raise ValueError("a column is too short")

    def put(self, first: cython.Py_ssize_t, out: cython.uchar[::1]) -> int:
        """Writes the lines of the records from ``first`` on. Returns the first record that is not written.

        It stops at a record with headers and at one that does not fit.
        """
        self.needed = 0
        if not 0 <= self.written <= len(out) or not 0 <= first <= self.count:
            raise ValueError("no such place in the output, or no such record")
        if first < self.count and len(out) > 0:
            p, place, size = bytes_out(out), bytes_in(self.place), len(self.place)
            limit: cython.Py_ssize_t = len(out) - MARGIN
            with cython.nogil:
                first = put_lines(self, first, p, limit, place, size)
        return first


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_text(
    column: TextColumn,
    i: cython.Py_ssize_t,
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Writes a comma, and the entry unless it is null."""
    start: cython.Py_ssize_t = column.ends[i]
    o = put(out, o, b",")
    if is_set(column.valid, i):
        return put_field(out, o, column.p, start, column.ends[i + 1] - start, limit)
    return o


def put_lines(lines, i, out, limit, place, size):
    texts: cython.Py_ssize_t
    o: cython.Py_ssize_t = lines.written
    while i < lines.count and lines.header_ends[i] == lines.header_ends[i + 1]:
        texts = lines.keys.ends[i + 1] - lines.keys.ends[i] + lines.values.ends[i + 1] - lines.values.ends[i]
        if limit - o < 2 * texts + size + NUMBERS:
            lines.needed = 2 * texts + size + NUMBERS + MARGIN
            break
        o = put_raw(out, o, place, size)
        o = put(out, o, b",")
        o = put_int(out, o, lines.offsets[i])
        o = put(out, o, b",")
        if is_set(lines.timed, i):
            o = put_int(out, o, lines.times[i])
        o = put(out, o, b",")
        if lines.kinds[i] == KAFKA_CREATE_TIME:
            o = put(out, o, b'"CreateTime"')
        elif lines.kinds[i] == KAFKA_APPEND_TIME:
            o = put(out, o, b'"LogAppendTime"')
        o = put_text(lines.keys, i, out, o, limit)
        o = put_text(lines.values, i, out, o, limit)
        o = put(out, o, b',"[]"\r\n')
        i += 1
    lines.written = o
    return i
