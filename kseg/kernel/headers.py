"""Headers of frames as rows of numbers (BATCH_*, see `kseg.kernel.native`), so that rules need not look at bytes again.

The marker of a control batch is read along with its header: type and coordinator epoch of its first record, which is
never compressed (Kafka's EndTransactionMarker, ControlRecordType: key int16 version, int16 type; value int16 version,
int32 coordinator epoch).
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_SEQUENCE,
        BATCH_BASE_TIMESTAMP,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_PRODUCER_EPOCH,
        BATCH_PRODUCER_ID,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be16,
        be32,
        be64,
        sum_of,
    )
    from cython.cimports.kseg.kernel.records import read_records
else:
    from kseg.kernel.native import (
        BATCH_ATTRIBUTES,
        BATCH_BASE_SEQUENCE,
        BATCH_BASE_TIMESTAMP,
        BATCH_COORDINATOR_EPOCH,
        BATCH_COUNT,
        BATCH_FIRST_OFFSET,
        BATCH_LAST_OFFSET,
        BATCH_LEADER_EPOCH,
        BATCH_MAGIC,
        BATCH_MARKER,
        BATCH_MAX_TIMESTAMP,
        BATCH_POSITION,
        BATCH_PRODUCER_EPOCH,
        BATCH_PRODUCER_ID,
        BATCH_SIZE,
        BATCH_STATE,
        BATCH_WIDTH,
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be16,
        be32,
        be64,
        sum_of,
    )
    from kseg.kernel.records import read_records

COMPILED = cython.compiled


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_marker(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    out: cython.pointer[cython.longlong],
    row: cython.Py_ssize_t,
) -> cython.void:
    """Fills MARKER and COORDINATOR_EPOCH from the first record of the control batch at p[at]."""
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    record: cython.longlong[10]
    headers: cython.longlong[4]
    count: cython.longlong = be32(p, at + 57)
    if (p[at + 22] & 7) or count < 1:
        return
    if not cython.compiled:
        batch, cursor, record, headers = [0] * 8, [0] * 8, [0] * 10, [0] * 4
    batch[0] = count
    batch[1] = batch[2] = batch[3] = batch[4] = batch[5] = 0
    batch[6] = 0x7FFFFFFF
    cursor[0] = cursor[2] = cursor[3] = cursor[4] = cursor[6] = 0
    cursor[1] = at + 61
    cursor[5] = -1
    read_records(p, at + size, cursor, batch, record, 1, headers, 1)
    if cursor[2] != 1 or record[4] < 4:
        return
    out[row + BATCH_MARKER] = be16(p, record[3] + 2)
    if record[6] >= 6:
        out[row + BATCH_COORDINATOR_EPOCH] = be32(p, record[5] + 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_v2(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    size: cython.longlong,
    out: cython.pointer[cython.longlong],
    row: cython.Py_ssize_t,
) -> cython.void:
    out[row + BATCH_FIRST_OFFSET] = be64(p, at)
    out[row + BATCH_LAST_OFFSET] = sum_of(be64(p, at), be32(p, at + 23))
    out[row + BATCH_ATTRIBUTES] = be16(p, at + 21) & 0xFFFF
    out[row + BATCH_LEADER_EPOCH] = be32(p, at + 12)
    out[row + BATCH_BASE_TIMESTAMP] = be64(p, at + 27)
    out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + 35)
    out[row + BATCH_PRODUCER_ID] = be64(p, at + 43)
    out[row + BATCH_PRODUCER_EPOCH] = be16(p, at + 51)
    out[row + BATCH_BASE_SEQUENCE] = be32(p, at + 53)
    out[row + BATCH_COUNT] = be32(p, at + 57)
    out[row + BATCH_MARKER] = -1
    out[row + BATCH_COORDINATOR_EPOCH] = -1
    if p[at + 22] & 32:
        read_marker(p, at, size, out, row)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_frames(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    v07: cython.bint,
    origin: cython.longlong,
    out: cython.pointer[cython.longlong],
) -> cython.void:
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    magic: cython.longlong
    size: cython.longlong
    for i in range(count):
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        magic = frames[i * FRAME_WIDTH + FRAME_MAGIC]
        row = i * BATCH_WIDTH
        out[row + BATCH_POSITION] = origin + at
        out[row + BATCH_SIZE] = size
        out[row + BATCH_MAGIC] = magic
        out[row + BATCH_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
        if magic >= 2 and not v07:
            read_v2(p, at, size, out, row)
            continue
        for k in range(BATCH_FIRST_OFFSET, BATCH_WIDTH):
            out[row + k] = -1
        if v07:
            out[row + BATCH_ATTRIBUTES] = p[at + 5] if magic == 1 else 0
            if not out[row + BATCH_ATTRIBUTES] & 3:
                out[row + BATCH_COUNT] = 1
        else:
            out[row + BATCH_ATTRIBUTES] = p[at + 17]
            out[row + BATCH_LAST_OFFSET] = be64(p, at)
            if magic != 0:
                out[row + BATCH_MAX_TIMESTAMP] = be64(p, at + 18)
            if not p[at + 17] & 7:
                out[row + BATCH_FIRST_OFFSET] = be64(p, at)
                out[row + BATCH_COUNT] = 1


def read(
    buffer: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    v07: cython.bint,
    origin: cython.longlong,
    out: cython.longlong[::1],
) -> None:
    """Headers of the first ``count`` frames as rows in ``out``, BATCH_WIDTH int64 each, positions moved by ``origin``.

    Each frame is one of `kseg.kernel.frames`, or has at least the header of its magic before the end of the buffer.
    """
    last: cython.Py_ssize_t
    if count <= 0:
        return
    last = (count - 1) * FRAME_WIDTH
    if len(frames) < count * FRAME_WIDTH or len(out) < count * BATCH_WIDTH or frames[FRAME_POSITION] < 0:
        raise ValueError("a buffer is too short")
    if frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > len(buffer):
        raise ValueError("frames lie outside the buffer")
    if cython.compiled:
        with cython.nogil:
            read_frames(
                cython.address(buffer[0]), cython.address(frames[0]), count, v07, origin, cython.address(out[0])
            )
    else:
        read_frames(buffer, frames, count, v07, origin, out)
