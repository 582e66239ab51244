"""Lays compressed v2 batches open as if they had never been compressed: many of them, end to end, for one call of a
loop over plain frames.

Each becomes its own header, with no codec in it, and behind that its records. Its length and CRC stay those of the
compressed batch: nobody who is told by STATE that the CRC is right looks at them.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.columns import is_outside
    from cython.cimports.kseg.kernel.expand import Room, expand_area
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
    )
    from cython.cimports.libc.string import memcpy
else:
    from kseg.kernel.expand import Room

COMPILED = cython.compiled

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
NO_ROOM = cython.declare(cython.Py_ssize_t, -2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lay_frames(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    count: cython.Py_ssize_t,
    wanted: cython.pointer[cython.const[cython.longlong]],
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    zstd: cython.p_void,
    laid: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    """How many of the frames are laid open; NO_ROOM where there is not enough for the first."""
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    held: cython.Py_ssize_t
    largest: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    codec: cython.int
    while i < count:
        at = frames[i * FRAME_WIDTH + FRAME_POSITION]
        size = frames[i * FRAME_WIDTH + FRAME_SIZE]
        if not frames[i * FRAME_WIDTH + FRAME_STATE] & 1 or frames[i * FRAME_WIDTH + FRAME_MAGIC] != 2:
            return i
        if size <= HEADER_BYTES or not p[at + 22] & 7:
            return i
        if cython.compiled and not be32(p, at + 57):
            return i
        # Where the largest so far would not fit, the next may not either, and what is decoded of it would be lost.
        if capacity - filled < HEADER_BYTES + largest:
            return i if i else NO_ROOM
        if cython.compiled:
            held = 0
            codec = p[at + 22] & 7
            if not is_outside(p, frames + i * FRAME_WIDTH, wanted):
                held = expand_area(
                    codec, 2, p + at + HEADER_BYTES, size - HEADER_BYTES, out + filled + HEADER_BYTES,
                    capacity - filled - HEADER_BYTES, zstd,
                )  # fmt: skip
            if held < 0:
                return i if i or held != NO_ROOM else NO_ROOM
            memcpy(out + filled, p + at, HEADER_BYTES)
            out[filled + 22] &= 0xF8
            laid[i * FRAME_WIDTH + FRAME_POSITION] = filled
            laid[i * FRAME_WIDTH + FRAME_SIZE] = HEADER_BYTES + held
            laid[i * FRAME_WIDTH + FRAME_MAGIC] = 2
            laid[i * FRAME_WIDTH + FRAME_STATE] = frames[i * FRAME_WIDTH + FRAME_STATE]
            filled += HEADER_BYTES + held
            if held > largest:
                largest = held
        i += 1
    return i


def lay_open(
    buf: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    wanted: cython.const[cython.longlong][::1],
    room: Room,
    laid: cython.longlong[::1],
) -> int:
    """How many frames from ``first`` on, at most up to ``stop``, now lie open in ``room``; ``laid`` has rows FRAME_*
    of them, as many as it holds. 0: the first is someone else's to open, as all are to an interpreted kernel.

    Of frames in which nothing is ``wanted`` (int64[4], see `kseg.kernel.columns`) the header alone is laid there.
    """
    found: cython.Py_ssize_t
    if not cython.compiled or first >= stop or len(buf) == 0:
        return 0
    if first < 0 or stop > len(frames) // FRAME_WIDTH or len(laid) < FRAME_WIDTH or len(wanted) < 4:
        raise ValueError("no such frames")
    if frames[(stop - 1) * FRAME_WIDTH] + frames[(stop - 1) * FRAME_WIDTH + 1] > len(buf):
        raise ValueError("frames reach beyond the buffer")
    if cython.compiled:
        if stop - first > laid.shape[0] // FRAME_WIDTH:
            stop = first + laid.shape[0] // FRAME_WIDTH
        while True:
            with cython.nogil:
                found = lay_frames(
                    cython.address(buf[0]),
                    cython.address(frames[first * FRAME_WIDTH]),
                    stop - first,
                    cython.address(wanted[0]),
                    cython.address(room.out[0]),
                    room.capacity,
                    room.zstd,
                    cython.address(laid[0]),
                )
            if found != NO_ROOM:
                return found
            if not room.extend(buf[frames[first * FRAME_WIDTH + FRAME_POSITION] + 22] & 7):
                return 0
