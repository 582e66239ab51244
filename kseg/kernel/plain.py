"""Which frames the renderers print without help, and the walk through their records.

A frame is plain when its CRC is right, nothing in it is compressed, it is no control batch, every record decodes, and
their offsets are as they should be: all that is left to do is to print. Whatever isn't plain goes back to the caller,
with nothing of it printed.

A renderer may have to stop at any record, because its output is full; `leave` notes where, `enter` goes on there.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
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
        ROW_WIDTH,
        be32,
        be64,
    )
    from cython.cimports.kseg.kernel.records import pass_records, read_records
else:
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        HEADER_KEY_SIZE,
        HEADER_VALUE,
        HEADER_VALUE_SIZE,
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
        ROW_WIDTH,
        be32,
        be64,
        v2_fields,
    )
    from kseg.kernel.records import pass_records, read_records

COMPILED = cython.compiled

CODEC_OR_CONTROL = cython.declare(cython.int, 0x27)
WRONG_OFFSETS = cython.declare(cython.longlong, 3)  # FLAG_NOT_RISING and FLAG_OUT_OF_RANGE of kseg.kernel.records
LOW_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
SIGN_BIT = cython.declare(cython.longlong, 0x80000000)
LINE_MARGIN = cython.declare(cython.Py_ssize_t, 1024)
LINE_LEAST = cython.declare(cython.Py_ssize_t, 80)
HEADER_MARGIN = cython.declare(cython.Py_ssize_t, 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def offset_after(base: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """The offset ``delta`` behind ``base``, modulo 2^64 as Java adds longs."""
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.ulonglong, base) + cython.cast(cython.ulonglong, delta))
    else:
        return (base + delta + (1 << 63)) % (1 << 64) - (1 << 63)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wrapped_int(value: cython.longlong) -> cython.longlong:
    return ((value + SIGN_BIT) & LOW_32_BITS) - SIGN_BIT


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def sequence_after(base: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """The sequence ``delta`` behind ``base``; after 2147483647 comes 0.

    The int arithmetic of Kafka's DefaultRecordBatch.incrementSequence, overflows of hostile values included.
    """
    if base == -1:
        return -1
    if base > wrapped_int(0x7FFFFFFF - delta):
        return wrapped_int(delta - (0x7FFFFFFF - base) - 1)
    return wrapped_int(base + delta)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_header(
    p: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, batch: cython.pointer[cython.longlong]
) -> cython.void:
    """Fills the eight fields that `kseg.kernel.records` wants to know of the v2 batch header at p[at]."""
    if cython.compiled:
        batch[0] = be32(p, at + 57)
        batch[1] = be64(p, at)
        batch[2] = be64(p, at + 27)
        batch[3] = be64(p, at + 35)
        batch[4] = (p[at + 22] >> 3) & 1
        batch[5] = be32(p, at + 53)
        batch[6] = be32(p, at + 23)
    else:
        batch[:7] = v2_fields(p, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_legacy_plain(
    p: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    magic: cython.int,
) -> cython.int:
    """Whether a v0 or v1 entry has no codec, and a key and a value that fill it to its end."""
    fields: cython.Py_ssize_t = 18 if magic == 0 else 26
    key_size: cython.longlong
    value_size: cython.longlong
    if size < fields + 8 or p[position + 17] & 7:
        return 0
    key_size = be32(p, position + fields)
    if key_size < -1 or key_size > size - fields - 8:
        return 0
    if key_size > 0:
        fields += key_size
    value_size = be32(p, position + fields + 4)
    if value_size < -1:
        return 0
    return fields + 8 + (value_size if value_size > 0 else 0) == size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def legacy_row(
    p: cython.pointer[cython.const[cython.uchar]],
    position: cython.Py_ssize_t,
    magic: cython.int,
    row: cython.pointer[cython.longlong],
) -> cython.void:
    """The row of a v0 or v1 entry that is plain and whose CRC is right."""
    fields: cython.Py_ssize_t = 18 if magic == 0 else 26
    kind: cython.longlong = 0
    timestamp: cython.longlong = -1
    key_size: cython.longlong = be32(p, position + fields)
    crc: cython.longlong = be32(p, position + 12)
    if magic:
        timestamp = be64(p, position + 18)
        kind = 1 + ((p[position + 17] >> 3) & 1)
    row[ROW_OFFSET] = be64(p, position)
    row[ROW_TIMESTAMP] = timestamp
    row[ROW_SEQUENCE] = -1
    row[ROW_KEY] = position + fields + 4
    row[ROW_KEY_SIZE] = key_size
    if key_size > 0:
        fields += key_size
    row[ROW_VALUE] = position + fields + 8
    row[ROW_VALUE_SIZE] = be32(p, position + fields + 4)
    row[ROW_HEADERS] = 0
    row[ROW_HEADER_COUNT] = 0
    row[ROW_CHECK] = (crc & LOW_32_BITS) + (2 * kind + 1) * (LOW_32_BITS + 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def has_plain_header(
    p: cython.pointer[cython.const[cython.uchar]], frame: cython.pointer[cython.const[cython.longlong]]
) -> cython.bint:
    """Whether a batch shows no problem before its records are looked at, and its header alone tells all of its line."""
    at: cython.Py_ssize_t = frame[FRAME_POSITION]
    if not frame[FRAME_STATE] & 1:
        return False
    if frame[FRAME_MAGIC] == 2:
        return frame[FRAME_SIZE] >= 61 and (p[at + 22] & 7) <= 4 and be32(p, at + 57) >= 0
    if frame[FRAME_MAGIC] == 0 or frame[FRAME_MAGIC] == 1:
        return is_legacy_plain(p, at, frame[FRAME_SIZE], cython.cast(cython.int, frame[FRAME_MAGIC]))
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_rows(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    batch: cython.pointer[cython.const[cython.longlong]],
    cursor: cython.pointer[cython.longlong],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
) -> cython.int:
    """Reads rows of the frame from cursor[0], cursor[1] on; the status is that of `kseg.kernel.records`."""
    cursor[4] = 0
    cursor[5] = -1
    cursor[6] = 0
    if frame[FRAME_MAGIC] >= 2:
        return read_records(
            p, frame[FRAME_POSITION] + frame[FRAME_SIZE], cursor, batch, rows, row_capacity, headers, header_capacity
        )
    cursor[2] = 0
    cursor[3] = 0
    if cursor[0] == 0:
        legacy_row(p, frame[FRAME_POSITION], cython.cast(cython.int, frame[FRAME_MAGIC]), rows)
        cursor[0] = 1
        cursor[2] = 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_frame(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    batch: cython.pointer[cython.longlong],
    cursor: cython.pointer[cython.longlong],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    refused: cython.int,
) -> cython.int:
    """Checks the whole frame and reads its first rows: 0 or 1 as `next_rows`, 14 too many headers, other: not plain.

    ``refused``: the attributes of a v2 batch that isn't plain.
    """
    position: cython.Py_ssize_t = frame[FRAME_POSITION]
    size: cython.Py_ssize_t = frame[FRAME_SIZE]
    status: cython.int
    if not frame[FRAME_STATE] & 1:
        return 2
    cursor[0] = 0
    if frame[FRAME_MAGIC] == 2:
        if size < 61 or p[position + 22] & refused:
            return 2
        read_header(p, position, batch)
        if (batch[0] > batch[6] + 1 and batch[0] > 0) or (batch[0] == 0 and size != 61):
            return 2
        cursor[1] = position + 61
    elif frame[FRAME_MAGIC] == 0 or frame[FRAME_MAGIC] == 1:
        if not is_legacy_plain(p, position, size, cython.cast(cython.int, frame[FRAME_MAGIC])):
            return 2
        batch[0] = 1
        cursor[1] = position
    else:
        return 2
    status = next_rows(p, frame, batch, cursor, rows, row_capacity, headers, header_capacity)
    if status == 1 and check_rest(p, position + size, batch, cursor) != 0:
        return 2
    return 2 if cursor[4] & WRONG_OFFSETS else status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def check_rest(
    p: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
    batch: cython.pointer[cython.const[cython.longlong]],
    cursor: cython.pointer[cython.longlong],
) -> cython.int:
    """Reads the records behind the cursor, up to the end of the batch; the cursor stays but for its flags."""
    ahead: cython.longlong[8]
    k: cython.Py_ssize_t
    status: cython.int
    if not cython.compiled:
        ahead = [0] * 8
    for k in range(8):
        ahead[k] = cursor[k]
    status = pass_records(p, end, ahead, batch)
    cursor[4] = ahead[4]
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def enter(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    state: cython.pointer[cython.const[cython.longlong]],
    batch: cython.pointer[cython.longlong],
    cursor: cython.pointer[cython.longlong],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
) -> cython.int:
    """Reads the rows that a renderer's state[1], state[2] ask for; status as `open_frame`.

    ``room``: bytes left in the output. Inside a batch, rows that won't fit are not read: they would be read twice.
    """
    return enter_any(
        p, frame, state, batch, cursor, rows, row_capacity, headers, header_capacity, room, CODEC_OR_CONTROL
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def enter_any(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    state: cython.pointer[cython.const[cython.longlong]],
    batch: cython.pointer[cython.longlong],
    cursor: cython.pointer[cython.longlong],
    rows: cython.pointer[cython.longlong],
    row_capacity: cython.Py_ssize_t,
    headers: cython.pointer[cython.longlong],
    header_capacity: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    refused: cython.int,
) -> cython.int:
    """As `enter`, with the attributes that `open_frame` refuses."""
    fitting: cython.Py_ssize_t
    if state[2] == 0:
        return open_frame(p, frame, batch, cursor, rows, row_capacity, headers, header_capacity, refused)
    batch[0] = 1
    if frame[FRAME_MAGIC] >= 2:
        read_header(p, frame[FRAME_POSITION], batch)
    cursor[0] = state[1]
    cursor[1] = state[2]
    fitting = room // (LINE_LEAST + (frame[FRAME_SIZE] // batch[0] if batch[0] > 0 else 0)) + 16
    if fitting < row_capacity:
        row_capacity = fitting
    return next_rows(p, frame, batch, cursor, rows, row_capacity, headers, header_capacity)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def behind_row(
    p: cython.pointer[cython.const[cython.uchar]],
    rows: cython.pointer[cython.const[cython.longlong]],
    row: cython.Py_ssize_t,
    headers: cython.pointer[cython.const[cython.longlong]],
) -> cython.longlong:
    """The position behind a v2 record, where the next one starts."""
    at: cython.Py_ssize_t = row * ROW_WIDTH
    h: cython.Py_ssize_t
    _: cython.int
    end: cython.longlong
    if rows[at + ROW_HEADER_COUNT]:
        h = (rows[at + ROW_HEADERS] + rows[at + ROW_HEADER_COUNT] - 1) * HEADER_WIDTH
        end = headers[h + HEADER_VALUE]
        return end + headers[h + HEADER_VALUE_SIZE] if headers[h + HEADER_VALUE_SIZE] > 0 else end
    end = rows[at + ROW_VALUE]
    if rows[at + ROW_VALUE_SIZE] > 0:
        end += rows[at + ROW_VALUE_SIZE]
    # What is left is the header count, a varint that says zero, in one byte or (over-long) in up to five.
    for _ in range(4):
        if p[end] < 128:
            break
        end += 1
    return end + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def leave(
    p: cython.pointer[cython.const[cython.uchar]],
    frame: cython.pointer[cython.const[cython.longlong]],
    state: cython.pointer[cython.longlong],
    batch: cython.pointer[cython.const[cython.longlong]],
    cursor: cython.pointer[cython.longlong],
    written: cython.longlong,
    rows: cython.pointer[cython.const[cython.longlong]],
    headers: cython.pointer[cython.const[cython.longlong]],
) -> cython.bint:
    """Notes in the state that ``written`` of the rows just read are printed; true when the frame is done."""
    done: cython.bint = False
    if written == cursor[2]:
        done = cursor[0] >= batch[0]
        state[1] = cursor[0]
        state[2] = cursor[1]
    elif written:
        state[1] += written
        state[2] = behind_row(p, rows, written - 1, headers)
    state[5] += written
    if done:
        state[0] += 1
        state[1] = 0
        state[2] = 0
    return done


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def room_for(
    rows: cython.pointer[cython.const[cython.longlong]],
    row: cython.Py_ssize_t,
    headers: cython.pointer[cython.const[cython.longlong]],
    capacity: cython.Py_ssize_t,
) -> cython.longlong:
    """Room to ask for when a record does not fit an empty output of ``capacity`` bytes.

    Enough for a record that needs no escaping, else twice what there is: growing to what the worst escaping takes, six
    times the size, would be a waste for most.
    """
    at: cython.Py_ssize_t = row * ROW_WIDTH
    h: cython.Py_ssize_t = rows[at + ROW_HEADERS] * HEADER_WIDTH
    _: cython.longlong
    room: cython.longlong = LINE_MARGIN + HEADER_MARGIN * rows[at + ROW_HEADER_COUNT]
    if rows[at + ROW_KEY_SIZE] > 0:
        room += rows[at + ROW_KEY_SIZE]
    if rows[at + ROW_VALUE_SIZE] > 0:
        room += rows[at + ROW_VALUE_SIZE]
    for _ in range(rows[at + ROW_HEADER_COUNT]):
        room += headers[h + HEADER_KEY_SIZE]
        if headers[h + HEADER_VALUE_SIZE] > 0:
            room += headers[h + HEADER_VALUE_SIZE]
        h += HEADER_WIDTH
    return room if room > 2 * capacity else 2 * capacity


def check_buffers(length, frames, start, stop, rows, out, state):
    """ValueError unless the rows of frames lie within what they are rows of."""
    if len(state) < 8 or len(rows) < ROW_WIDTH or len(out) < 4096:
        raise ValueError("state needs 8 entries, rows one row, out 4096 bytes")
    if not 0 <= start <= state[0] or not stop <= len(frames) // FRAME_WIDTH or not 0 <= state[3] <= len(out):
        raise ValueError("no such frames, or no such place in out")
    if state[0] < stop and frames[(stop - 1) * FRAME_WIDTH] + frames[(stop - 1) * FRAME_WIDTH + 1] > length:
        raise ValueError("frames reach beyond the buffer")


def check_rows(rows, first, stop, out, state):
    """ValueError unless there are such rows and such a place in ``out``."""
    if (
        not 0 <= first <= stop <= len(rows) // ROW_WIDTH
        or len(state) < 8
        or len(out) < 4096
        or not 0 <= state[3] <= len(out)
    ):
        raise ValueError("no such rows, or no such place in out")
