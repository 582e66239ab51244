"""Starts writing parts of a file to disk early (Linux: sync_file_range), so that its final fsync is short.

It gives no guarantee, and has no effect on other systems. Errors are reported by the fsync.
"""

import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.files import writing


def begin_writing(descriptor: cython.int, position: cython.longlong, size: cython.longlong) -> None:
    """Starts writing ``size`` bytes from ``position`` on to disk, without waiting for the end."""
    if cython.compiled:
        with cython.nogil:
            writing.begin(descriptor, position, size)
