"""Columns of records as lines of CSV. An interpreted kernel leaves all of them to the caller."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel import escape
    from cython.cimports.kseg.kernel.csv_text import put_csv
    from cython.cimports.kseg.kernel.escape import put, put_base64, put_int

    escape.shuffle_setup()

COMPILED = cython.compiled

END, NEEDED = 0, 1
STATE_WIDTH = 2

MARGIN = cython.declare(cython.Py_ssize_t, 128)  # KSEG_STEP of escape.h
NUMBERS = cython.declare(cython.Py_ssize_t, 512)  # room for those of a record, commas, names of types and margins


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_set(bits: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.bint:
    return (bits[i >> 3] >> (i & 7)) & 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_field(
    out: cython.pointer[cython.uchar],
    o: cython.Py_ssize_t,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """A key or value, for which there is room of twice its size and then some."""
    end: cython.Py_ssize_t = o
    if cython.compiled:
        end = put_csv(out, o, data + start, size)
        if end < 0:
            o = put(out, o, b'"{""base64"":""', 15)
            o = put_base64(out, o, limit, data + start, size)
            end = put(out, o, b'""}"', 4)
    return end


def put_lines(
    place: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    times: cython.const[cython.longlong][::1],
    timed: cython.const[cython.uchar][::1],
    kinds: cython.const[cython.int][::1],
    key_data: cython.const[cython.uchar][::1],
    key_ends: cython.const[cython.int][::1],
    key_valid: cython.const[cython.uchar][::1],
    value_data: cython.const[cython.uchar][::1],
    value_ends: cython.const[cython.int][::1],
    value_valid: cython.const[cython.uchar][::1],
    header_ends: cython.const[cython.int][::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Writes lines of the records from ``first`` on, each behind ``place``, to ``out``: the record that it stopped at.

    Columns are those of `kseg.columns.chunk.Chunk` with ``count`` records. It stops at one that has headers, or where
    there is no room. ``state`` (int64[2]): 0 END of what there is in ``out`` (in and out); 1 NEEDED room that ``out``
    must have behind that, 0 where it is not that.
    """
    i: cython.Py_ssize_t = first
    o: cython.Py_ssize_t
    room: cython.Py_ssize_t
    key: cython.Py_ssize_t
    value: cython.Py_ssize_t
    limit: cython.Py_ssize_t = len(out) - MARGIN
    if len(state) < STATE_WIDTH or not 0 <= state[0] <= len(out) or not 0 <= first <= count:
        raise ValueError("no such state")
    state[1] = 0
    if min(len(offsets), len(times), len(kinds), 8 * len(timed), 8 * len(key_valid), 8 * len(value_valid)) < count:
        raise ValueError("a column is too short")
    if min(len(key_ends), len(value_ends), len(header_ends)) <= count:
        raise ValueError("a column is too short")
    if key_ends[count] > len(key_data) or value_ends[count] > len(value_data):
        raise ValueError("a column is too short")
    if cython.compiled and count and len(place) and len(out) and len(key_data) and len(value_data):
        o = state[0]
        with cython.nogil:
            while i < count and header_ends[i] == header_ends[i + 1]:
                key = key_ends[i + 1] - key_ends[i]
                value = value_ends[i + 1] - value_ends[i]
                room = 2 * (key + value) + place.shape[0] + NUMBERS
                if limit - o < room:
                    state[1] = room + MARGIN
                    break
                o = put(cython.address(out[0]), o, cython.address(place[0]), place.shape[0])
                out[o] = 44
                o = put_int(cython.address(out[0]), o + 1, offsets[i])
                out[o] = 44
                o += 1
                if is_set(cython.address(timed[0]), i):
                    o = put_int(cython.address(out[0]), o, times[i])
                out[o] = 44
                o += 1
                if kinds[i] == 0:
                    o = put(cython.address(out[0]), o, b'"CreateTime"', 12)
                elif kinds[i] == 1:
                    o = put(cython.address(out[0]), o, b'"LogAppendTime"', 15)
                out[o] = 44
                o += 1
                if is_set(cython.address(key_valid[0]), i):
                    o = put_field(cython.address(out[0]), o, cython.address(key_data[0]), key_ends[i], key, limit)
                out[o] = 44
                o += 1
                if is_set(cython.address(value_valid[0]), i):
                    o = put_field(cython.address(out[0]), o, cython.address(value_data[0]), value_ends[i], value, limit)
                o = put(cython.address(out[0]), o, b',"[]"\r\n', 7)
                i += 1
        state[0] = o
    return i
