"""Has the system begin to write what a file was given (Linux: sync_file_range), so that the fsync at its end is short.

It is advice: nothing is promised to be on the disk, and elsewhere nothing happens. What fails, the fsync tells.
"""

import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.files import writing


def begin_writing(descriptor: cython.int, position: cython.longlong, size: cython.longlong) -> None:
    """``size`` bytes from ``position`` on. Returns while they are being written."""
    if cython.compiled:
        with cython.nogil:
            writing.begin(descriptor, position, size)
