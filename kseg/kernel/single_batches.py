"""Records as v2 batches of one record each: what Kafka's cleaner and its down-conversion make of a plain message."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.building import write_records
    from cython.cimports.kseg.kernel.native import ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH, put_big
    from cython.cimports.kseg.kernel.rewriting import put_header
else:
    from kseg.kernel.building import write_records
    from kseg.kernel.native import ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH, put_big
    from kseg.kernel.rewriting import put_header

COMPILED = cython.compiled

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
MOST_FIELD_BYTES = cython.declare(cython.Py_ssize_t, 24)  # lengths, deltas and attributes of a record without headers
LARGEST_SIZE = cython.declare(cython.longlong, 0x7FFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_batches(
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    attributes: cython.int,
    out: cython.pointer[cython.uchar],
    room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Bytes written, or -1."""
    i: cython.Py_ssize_t
    k: cython.int
    at: cython.Py_ssize_t = 0
    state: cython.longlong[9]
    model: cython.uchar[61]
    if not cython.compiled:
        state, model = [0] * 9, [0] * 61
    for k in range(HEADER_BYTES):
        model[k] = 255  # -1: what is told of a leader epoch and a producer
    model[16] = 2
    for k in range(23, 27):
        model[k] = 0
    for i in range(count):
        if room - at < HEADER_BYTES:
            return -1
        for k in range(9):
            state[k] = 0
        state[0] = at + HEADER_BYTES
        state[1] = rows[i * ROW_WIDTH + ROW_OFFSET]
        if write_records(p, rows, headers, i, i + 1, state, out, room) == i or state[0] - at - 12 > LARGEST_SIZE:
            return -1
        put_header(out, at, state[0], model, 0, attributes, state[2], state[5], 1)
        put_big(out, at, state[1], 8)
        at = state[0]
    return at


def most_bytes(rows: cython.const[cython.longlong][::1], count: cython.Py_ssize_t) -> int:
    """Room that ``count`` records without headers take as batches, or somewhat more."""
    i: cython.Py_ssize_t
    size: cython.longlong = 0
    if count < 0 or count * ROW_WIDTH > len(rows):
        raise ValueError("no such rows")
    for i in range(count):
        size += HEADER_BYTES + MOST_FIELD_BYTES
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
    """Writes the first rows (ROW_*, their bytes in ``payload``) to ``out``, each as a batch with these attributes.

    Nothing is told of a producer or a leader epoch. Returns the bytes written; raises ValueError where ``out`` is too
    short, or a batch would be larger than its length field can say.
    """
    done: cython.Py_ssize_t
    if count < 0 or count * ROW_WIDTH > len(rows) or len(headers) == 0:
        raise ValueError("no such rows")
    if count == 0:
        return 0
    if len(payload) == 0 or len(out) == 0:
        raise ValueError("a buffer is too short")
    if cython.compiled:
        with cython.nogil:
            done = write_batches(
                cython.address(payload[0]), cython.address(rows[0]), cython.address(headers[0]), count, attributes,
                cython.address(out[0]), out.shape[0],
            )  # fmt: skip
    else:
        done = write_batches(payload, rows, headers, count, attributes, out, len(out))
    if done < 0:
        raise ValueError("a batch does not fit")
    return done
