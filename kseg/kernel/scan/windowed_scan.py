"""Scans a file window by window: one call, without Python's global lock.

Threads that pass over parts of a file so do not wait for each other. A window is filled, its frames are followed
(`kseg.kernel.scan.frames`) and their headers read (`kseg.kernel.scan.headers`) while it is in the processor's cache.
"""

import os

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.layout.headers import CODEC, ENTRY_OVERHEAD, ENTRY_SIZE, V2_FLAGS
from cython.cimports.kseg.kernel.layout.pointers import bytes_out, int64s_out
from cython.cimports.kseg.kernel.layout.rows import BATCH_WIDTH, FRAME_WIDTH, be32
from cython.cimports.kseg.kernel.scan.frame_scan import FULL, NEEDS_BUFFER, WALK_RECORDS, FrameScan
from cython.cimports.kseg.kernel.scan.frames import all_proven, extend_expansion, scan_frames
from cython.cimports.kseg.kernel.scan.headers import read_frames

if cython.compiled:
    from cython.cimports.kseg.kernel.files.reading import read_at
    from cython.cimports.libc.string import memmove
else:
    from kseg import positioned
    from kseg.kernel.layout.rows import indexable

    bytes_out = memoryview


class WindowedScan:
    """A pass over the intact frames of a file of magic 0 to 2, from ``origin`` up to ``end``.

    All positions are relative to ``base``, where the segment begins in the file of the descriptor.

    ``manner`` and ``scan``: `kseg.kernel.scan.frame_scan`. The window lies at ``origin`` of the file, ``filled``
    bytes of it; ``position`` is where the pass stands. ``frame_count`` frames were found last. ``header_count`` rows
    of headers are written; the caller sets it back to 0.
    """

    def __init__(self, descriptor, origin, end, manner, base=0):
        self.descriptor = descriptor
        self.base = base
        self.origin = origin
        self.end = end
        self.filled = self.frame_count = self.header_count = 0
        self.has_more = False
        self.scan = FrameScan(False, manner)

    @property
    def position(self):
        return self.origin + self.scan.position

    @property
    def records(self):
        """How many were found right."""
        return self.scan.records

    def follow(
        self,
        most: cython.longlong,
        window: cython.uchar[::1],
        frames: cython.longlong[::1],
        headers: cython.longlong[::1],
        expansion: ExpansionBuffer = None,
    ) -> int:
        """Follows intact frames, whose rows go to ``frames`` and those of their headers to ``headers``, until one of:

        ENDED (nothing is left to read), PAUSED (the headers are full, or the pass has come to ``most``), LOOK (frames
        of the window, the last ``frame_count`` rows of the headers, are not known to be right: call again to go on
        behind them) or STUCK (what is at the position is no intact frame, or does not fit into the window). Without
        ``headers`` each window gives a LOOK. Raises OSError.
        """
        status: cython.longlong = NEEDS_MORE
        self.window_bytes = len(window)
        self.frame_capacity = len(frames) // FRAME_WIDTH
        self.header_capacity = len(headers) // BATCH_WIDTH
        if self.window_bytes == 0 or self.frame_capacity == 0:
            raise ValueError("a buffer is too short")
        if not 0 <= self.filled <= self.window_bytes or not 0 <= self.header_count <= self.header_capacity:
            raise ValueError("no such place in a buffer")
        self.window = bytes_out(window)
        self.frames = int64s_out(frames)
        self.headers = int64s_out(headers)
        while status == NEEDS_MORE:
            self.scan.use_expansion(expansion)
            with cython.nogil:
                status = follow_windows(self, most)
            if status == NEEDS_MORE:
                extend_expansion(self.scan, window[self.scan.position + V2_FLAGS] & CODEC, expansion)
        if status < 0:
            raise OSError(-status, os.strerror(-status))
        return status

    def refill(self):
        """Reads the window again from the position on, into one that may be larger."""
        self.filled = 0


def wanted_bytes(windows, rest):
    """Where the window best ends: behind a frame that takes most of it, and the length of the next."""
    size: cython.longlong = windows.window_bytes
    wanted: cython.longlong
    if rest < ENTRY_OVERHEAD:
        return size
    wanted = be32(windows.window, ENTRY_SIZE) + 2 * ENTRY_OVERHEAD
    return wanted if max(size // 2, rest) < wanted <= size else size


def fill(windows):
    """Moves what is left to the front and reads on behind it: bytes read, or an error as read_at."""
    start: cython.Py_ssize_t = windows.scan.position
    rest: cython.Py_ssize_t = windows.filled - start
    size: cython.longlong
    got: cython.longlong
    if start > 0 and rest > 0:
        if cython.compiled:
            memmove(windows.window, windows.window + start, rest)
        else:
            windows.window[:rest] = bytes(windows.window[start : start + rest])
    windows.origin += start
    windows.filled = rest
    windows.scan.position = 0
    size = min(wanted_bytes(windows, rest), windows.end - windows.origin) - rest
    if cython.compiled:
        got = read_at(windows.descriptor, windows.window + rest, size, windows.base + windows.origin + rest)
    else:
        data = positioned.read_at(windows.descriptor, size, windows.base + windows.origin + rest)
        got = len(data)
        windows.window[rest : rest + got] = data
    if got < 0:
        return got
    windows.filled += got
    return got


def append_headers(windows, data):
    """Reads the headers of the frames found last."""
    row: cython.Py_ssize_t = windows.header_count * BATCH_WIDTH
    if cython.compiled:
        read_frames(data, windows.frames, windows.frame_count, False, windows.origin, windows.headers + row)
    else:
        read_frames(data, windows.frames, windows.frame_count, False, windows.origin, windows.headers[row:])
    windows.header_count += windows.frame_count


def follow_windows(windows, most):
    """A status, or the number of an error, negated."""
    data: cython.pointer[cython.const[cython.uchar]]
    capacity: cython.Py_ssize_t
    got: cython.longlong
    status: cython.int
    while True:
        if not windows.has_more:
            if windows.filled and windows.scan.position == 0:
                return STUCK
            if windows.origin + windows.scan.position >= most:
                return PAUSED
            got = fill(windows)
            if got < 0:
                return got
            if windows.filled <= 0:
                return ENDED
            windows.has_more = True
        capacity = windows.frame_capacity
        if windows.header_capacity:
            if windows.header_count == windows.header_capacity:
                return PAUSED
            capacity = min(capacity, windows.header_capacity - windows.header_count)
        if cython.compiled:
            data = windows.window
        else:
            data = indexable(windows.window)
        status = scan_frames(windows.scan, data, windows.filled, windows.frames, capacity)
        if status == NEEDS_BUFFER:
            return NEEDS_MORE
        windows.has_more = status == FULL
        windows.frame_count = windows.scan.count
        if windows.frame_count == 0:
            continue
        if windows.header_capacity:
            append_headers(windows, data)
        if not windows.header_capacity or (
            windows.scan.manner & WALK_RECORDS and not all_proven(windows.frames, windows.frame_count)
        ):
            return LOOK
