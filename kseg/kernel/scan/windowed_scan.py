"""Scans a file window by window in one call, without the GIL.

Threads can thus scan parts of a file in parallel. A window is read, its frames are found (`kseg.kernel.scan.frames`)
and their headers are read (`kseg.kernel.scan.headers`) while it is in the processor's cache.
"""

import os

import cython
from cython.cimports.kseg.kernel.codecs.expand import ExpansionBuffer
from cython.cimports.kseg.kernel.scan.frame_scan import WALK_RECORDS, FrameScan
from cython.cimports.kseg.kernel.scan.frames import all_proven, scan_frames
from cython.cimports.kseg.kernel.scan.headers import read_frames

if not cython.compiled:
    from kseg import positioned

    bytes_out = memoryview


class WindowedScan:
    """A scan over the intact frames of a file of magic 0 to 2, from ``origin`` up to ``end``.

    All positions are relative to ``base``, the start of the segment in the file of the descriptor.

    ``options`` and ``scan``: `kseg.kernel.scan.frame_scan`. The window starts at ``origin`` and has ``filled`` bytes;
    ``position`` is the next byte to scan. ``frame_count``: frames found in the last window. ``header_count``: header
    rows written; the caller resets it to 0.
    """

    def __init__(self, descriptor, origin, end, options, base=0):
        self.descriptor = descriptor
        self.base = base
        self.origin = origin
        self.end = end
        self.filled = self.frame_count = self.header_count = 0
        self.has_more = False
        self.scan = FrameScan(False, options)

    @property
    def position(self):
        return self.origin + self.scan.position

    @property
    def records(self):
        """Returns the number of records that walks found right."""
        return self.scan.records

    def follow(
        self,
        end_position: cython.longlong,
        window: BytesOut,
        frames: Int64sOut,
        headers: Int64sOut,
        expansion: ExpansionBuffer = None,
    ) -> int:
        """Finds intact frames, and writes their rows to ``frames`` and their header rows to ``headers``.

        Returns ENDED (end of file), PAUSED (the headers are full, or the position has reached ``end_position``),
        NEEDS_CHECK (frames of the window, the last ``frame_count`` header rows, lack RECORDS_RIGHT: check them, then
        call again) or STUCK (no intact frame begins at the position, or it does not fit into the window). Without
        ``headers`` every window ends with NEEDS_CHECK. Raises OSError, and ValueError for inconsistent buffers.
        """
        status: cython.longlong = NEEDS_BUFFER
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
        while status == NEEDS_BUFFER:
            self.scan.use_expansion(expansion)
            with cython.nogil:
                status = follow_windows(self, end_position)
            if status == NEEDS_BUFFER and not expansion.extend(window[self.scan.position + V2_FLAGS] & CODEC):
                self.scan.unexpandable = self.scan.position  # the frame is skipped
        if status < 0:
            raise OSError(-status, os.strerror(-status))
        return status

    def refill(self):
        """Discards the window: the next call reads it again from the position on, and it may be larger then."""
        self.filled = 0


def wanted_bytes(windows, rest):
    """Returns the best size of the window: up to the end of a frame that fills most of it, plus the next length."""
    size: cython.longlong = windows.window_bytes
    if rest < ENTRY_OVERHEAD:
        return size
    wanted = be32(windows.window, ENTRY_SIZE) + 2 * ENTRY_OVERHEAD
    return wanted if max(size // 2, rest) < wanted <= size else size


def fill(windows):
    """Moves the rest to the front and reads behind it. Returns the number of bytes read, or an error as read_at."""
    start: cython.Py_ssize_t = windows.scan.position
    rest: cython.Py_ssize_t = windows.filled - start
    if start > 0 and rest > 0:
        put_bytes(windows.window, 0, windows.window, start, rest)
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
    """Appends the header rows of the frames found last."""
    row: cython.Py_ssize_t = windows.header_count * BATCH_WIDTH
    read_frames(data, windows.frames, windows.frame_count, False, windows.origin, windows.headers, row)
    windows.header_count += windows.frame_count


def follow_windows(windows, end_position):
    """`WindowedScan.follow` without the GIL. Returns its result, NEEDS_BUFFER, or a negated errno."""
    data: cython.pointer[cython.const[cython.uchar]]
    while True:
        if not windows.has_more:
            if windows.filled and windows.scan.position == 0:
                return STUCK
            if windows.origin + windows.scan.position >= end_position:
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
        data = indexable(windows.window)
        status = scan_frames(windows.scan, data, windows.filled, windows.frames, capacity)
        if status == NEEDS_BUFFER:
            return NEEDS_BUFFER
        windows.has_more = status == FULL
        windows.frame_count = windows.scan.count
        if windows.frame_count == 0:
            continue
        if windows.header_capacity:
            append_headers(windows, data)
        if not windows.header_capacity or (
            windows.scan.options & WALK_RECORDS and not all_proven(windows.frames, windows.frame_count)
        ):
            return NEEDS_CHECK
