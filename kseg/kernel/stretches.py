"""A stretch of a file, read into one window after the other and followed there: one call, without Python's global lock.

Threads that pass over parts of a file so do not wait for each other. A window is filled, its frames are followed
(`kseg.kernel.frames`) and their headers read (`kseg.kernel.headers`) while it is in the processor's cache.

``place`` (int64[5], in and out; all 0 but for ORIGIN at first):

    0 ORIGIN   of the window in the file     1 FILLED   bytes of the window
    2 BEGUN    1: there may be more frames in the window, from the position of the scan on
    3 COUNT    rows of headers so far        4 FRAMES   frames found last
"""

import os

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import Room
    from cython.cimports.kseg.kernel.frame_scan import FULL, NEEDS_ROOM, WALK_RECORDS, FrameScan
    from cython.cimports.kseg.kernel.frames import all_proven, extend_room, scan_frames
    from cython.cimports.kseg.kernel.headers import read_frames
    from cython.cimports.kseg.kernel.layout import CODEC, V2_FLAGS
    from cython.cimports.kseg.kernel.native import BATCH_WIDTH, FRAME_WIDTH, be32
    from cython.cimports.kseg.kernel.reading import read_at
    from cython.cimports.libc.string import memmove
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.frame_scan import FULL, NEEDS_ROOM, WALK_RECORDS, FrameScan
    from kseg.kernel.frames import all_proven, extend_room, scan_frames
    from kseg.kernel.headers import read_frames
    from kseg.kernel.layout import CODEC, V2_FLAGS
    from kseg.kernel.native import BATCH_WIDTH, FRAME_WIDTH, be32, indexable

COMPILED = cython.compiled

ENDED, PAUSED, LOOK, STUCK = 0, 1, 2, 3
PLACE_WIDTH = 5
_FAILED = cython.declare(cython.int, -1)
_LENGTH_BYTES = cython.declare(cython.longlong, 12)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wanted_bytes(
    window: cython.pointer[cython.const[cython.uchar]], size: cython.longlong, rest: cython.longlong
) -> cython.longlong:
    """Where the window best ends: behind a frame that takes most of it, and the length of the next."""
    wanted: cython.longlong
    if rest < _LENGTH_BYTES:
        return size
    wanted = be32(window, 8) + 2 * _LENGTH_BYTES
    return wanted if max(size // 2, rest) < wanted <= size else size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill(
    descriptor: cython.int,
    end: cython.longlong,
    window: cython.pointer[cython.uchar],
    size: cython.longlong,
    start: cython.longlong,
    place: cython.pointer[cython.longlong],
) -> cython.longlong:
    """Moves what is left from ``start`` on to the front and reads on behind it; bytes read, or an error as read_at."""
    rest: cython.longlong = place[1] - start
    got: cython.longlong
    if start > 0 and rest > 0:
        if cython.compiled:
            memmove(window, window + start, rest)
        else:
            window[:rest] = bytes(window[start : start + rest])
    place[0] += start
    place[1] = rest
    size = min(wanted_bytes(window, size, rest), end - place[0]) - rest
    if cython.compiled:
        got = read_at(descriptor, window + rest, size, place[0] + rest)
    else:
        got = os.preadv(descriptor, [window[rest : rest + size]], place[0] + rest)
    if got > 0:
        place[1] += got
    return got


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow_stretch(
    descriptor: cython.int,
    end: cython.longlong,
    most: cython.longlong,
    window: cython.pointer[cython.uchar],
    size: cython.longlong,
    frames: cython.pointer[cython.longlong],
    frame_capacity: cython.Py_ssize_t,
    scan: FrameScan,
    place: cython.pointer[cython.longlong],
    headers: cython.pointer[cython.longlong],
    capacity: cython.Py_ssize_t,
) -> cython.longlong:
    got: cython.longlong
    status: cython.int
    data: cython.pointer[cython.const[cython.uchar]]
    while True:
        if not place[2]:
            if place[1] and scan.position == 0:
                return 3
            if place[0] + scan.position >= most:
                return 1
            got = fill(descriptor, end, window, size, scan.position, place)
            if got < 0:
                return got
            scan.position = 0
            if place[1] <= 0:
                return 0
            place[2] = 1
        if capacity and place[3] == capacity:
            return 1
        if capacity and capacity - place[3] < frame_capacity:
            frame_capacity = capacity - place[3]
        if cython.compiled:
            data = window
        else:
            data = indexable(window)
        status = scan_frames(scan, data, place[1], frames, frame_capacity)
        if status == NEEDS_ROOM:
            return 4
        place[2] = status == FULL
        place[4] = scan.count
        if scan.count == 0:
            continue
        if capacity:
            if cython.compiled:
                read_frames(data, frames, scan.count, False, place[0], headers + place[3] * BATCH_WIDTH)
            else:
                read_frames(data, frames, scan.count, False, place[0], headers[place[3] * BATCH_WIDTH :])
            place[3] += scan.count
        if not capacity or (scan.manner & WALK_RECORDS and not all_proven(frames, scan.count)):
            return 2


def follow(
    descriptor: cython.int,
    end: cython.longlong,
    most: cython.longlong,
    window: cython.uchar[::1],
    frames: cython.longlong[::1],
    scan: FrameScan,
    place: cython.longlong[::1],
    headers: cython.longlong[::1],
    room: Room = None,
) -> int:
    """Follows intact frames of magic 0 to 2 up to ``end`` of the file, until one of these:

    ENDED (there is nothing more to read), PAUSED (``headers`` are full, or the pass has come to ``most``: call again
    with COUNT 0), LOOK (frames of the window, the last FRAMES rows of the headers, are not known to be right: call
    again to go on behind them) or STUCK (what is at its position is no intact frame, or does not fit into the window).
    Without ``headers`` each window gives a LOOK. The scan is one of no 0.7 and no prefix CRCs. Raises OSError.
    """
    status: cython.longlong = 4
    if len(window) == 0 or len(frames) < FRAME_WIDTH or len(place) < PLACE_WIDTH:
        raise ValueError("a buffer is too short")
    if scan.is_07 or scan.prefixes.anchor >= 0:
        raise ValueError("no such scan")
    if not 0 <= scan.position <= place[1] <= len(window) or not 0 <= place[3] <= len(headers) // BATCH_WIDTH:
        raise ValueError("no such place")
    if cython.compiled:
        while status == 4:
            scan.use_room(room)
            with cython.nogil:
                status = follow_stretch(
                    descriptor,
                    end,
                    most,
                    cython.address(window[0]),
                    window.shape[0],
                    cython.address(frames[0]),
                    frames.shape[0] // FRAME_WIDTH,
                    scan,
                    cython.address(place[0]),
                    cython.address(headers[0]) if headers.shape[0] else cython.NULL,
                    headers.shape[0] // BATCH_WIDTH,
                )
            if status == 4:
                extend_room(scan, window[scan.position + V2_FLAGS] & CODEC, room)
        if status < 0:
            raise OSError(-status, os.strerror(-status))
        return status
    else:
        view, frame_capacity, capacity = memoryview(window), len(frames) // FRAME_WIDTH, len(headers) // BATCH_WIDTH
        return follow_stretch(
            descriptor, end, most, view, len(view), frames, frame_capacity, scan, place, headers, capacity,
        )  # fmt: skip
