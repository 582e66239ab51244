"""How far batches go that are intact and plain, and of which their headers say the same: what one says of its records
is true of the records of all.
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
        be32,
        be64,
    )
    from cython.cimports.kseg.kernel.plain import is_legacy_plain
    from cython.cimports.kseg.kernel.recoding import check_frames, check_records
else:
    from kseg.kernel.native import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH, be32, be64
    from kseg.kernel.plain import is_legacy_plain
    from kseg.kernel.recoding import check_frames, check_records

COMPILED = cython.compiled

STATE_WIDTH = 4
NEXT_OFFSET, KIND, TIME, TIMED = range(STATE_WIDTH)
NO_TIME, CREATE_TIME, APPEND_TIME = 0, 1, 2

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
APPEND_TIME_BIT = cython.declare(cython.int, 8)
ALL_BITS = cython.declare(cython.int, 255)
LARGEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_plain_batch(
    p: cython.pointer[cython.const[cython.uchar]], at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether a v2 batch holds records that are right and not compressed, and nothing of transactions or producers."""
    if size <= HEADER_BYTES or p[at + 21] or p[at + 22] & (ALL_BITS - APPEND_TIME_BIT):
        return False
    if be64(p, at + 43) != -1 or be32(p, at + 57) <= 0:
        return False
    if cython.compiled:
        return check_records(p, at, p + at + HEADER_BYTES, size - HEADER_BYTES)
    else:
        return check_records(p, at, p[at + HEADER_BYTES : at + size], size - HEADER_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count_alike(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    frame: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    kind: cython.longlong
    time: cython.longlong
    delta: cython.longlong
    magic: cython.longlong = frames[first * FRAME_WIDTH + FRAME_MAGIC]
    state[3] = 0
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        size = frames[frame + FRAME_SIZE]
        if frames[frame + FRAME_MAGIC] != magic or not frames[frame + FRAME_STATE] & 1:
            return i
        delta = 0
        kind = 0
        time = -1
        if magic == 2:
            if not is_plain_batch(p, at, size):
                return i
            delta = be32(p, at + 23)
            kind = 1 + (p[at + 22] & APPEND_TIME_BIT) // APPEND_TIME_BIT
            time = be64(p, at + 35)
        elif magic == 0 or magic == 1:
            if not is_legacy_plain(p, at, size, cython.cast(cython.int, magic)):
                return i
            if p[at + 17] & (ALL_BITS - APPEND_TIME_BIT * magic):
                return i
            if magic == 1:
                kind = 1 + (p[at + 17] & APPEND_TIME_BIT) // APPEND_TIME_BIT
                time = be64(p, at + 18)
        else:
            return i
        if be64(p, at) < state[0] or delta < 0 or be64(p, at) >= LARGEST_OFFSET - delta:
            return i
        if i == first:
            state[1] = kind
            state[2] = time
        elif kind != state[1] or (kind == 2 and time != state[2]):
            return i
        state[0] = be64(p, at) + delta + 1
        state[3] += time >= 0
    return stop


def alike(
    buffer: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.longlong[::1],
) -> int:
    """How far batches go, from frame ``first`` on, that are plain and alike; ``frames`` are rows FRAME_* of ``buffer``.

    ``state`` (int64[4]): 0 NEXT_OFFSET (in and out) that the next one must not be below; out: 1 KIND of their time,
    NO_TIME, CREATE_TIME or APPEND_TIME; 2 TIME in ms, where that is APPEND_TIME; 3 TIMED, how many have a timestamp.
    """
    if len(state) < STATE_WIDTH:
        raise ValueError("a buffer is too short")
    check_frames(len(buffer), frames, first, stop)
    if first >= stop:
        return first
    if cython.compiled:
        return count_alike(cython.address(buffer[0]), cython.address(frames[0]), first, stop, cython.address(state[0]))
    else:
        return count_alike(buffer, frames, first, stop, state)
