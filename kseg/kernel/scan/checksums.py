"""Checksums for Python callers: CRC-32C (batches of magic 2) and CRC-32 (messages of magic 0 and 1, and of 0.7).

The kernel's own loops call native.h; this is its face for all others, and lets tests run each path through it.
"""

import cython
from cython.cimports.kseg.kernel.layout import rows as native

native.native_setup()


def crc32c(buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """CRC-32C of a contiguous buffer of bytes, after ``crc``, the CRC of what came before it."""
    return _update(True, -1, buffer, crc)


def crc32(buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """CRC-32 as zlib computes it, of a contiguous buffer of bytes, after ``crc``."""
    return _update(False, -1, buffer, crc)


def crc32c_range(before: cython.uint, through: cython.uint, n: cython.ulonglong) -> int:
    """CRC-32C of ``n`` bytes, from that of all bytes before them and that of all bytes through their end.

    Takes the same time for any ``n``: with a table of prefix CRCs, any range of a file is checked without reading it.
    """
    return native.crc32c_range(before, through, n)


def crc32_range(before: cython.uint, through: cython.uint, n: cython.ulonglong) -> int:
    """CRC-32 of ``n`` bytes, as `crc32c_range`."""
    return native.crc32_range(before, through, n)


def paths() -> tuple[str, ...]:
    """The ways to compute both checksums that this machine has, slowest first: the last is the one used.

    ``table``, ``sse42``, ``armv8``, ``pmull`` when compiled; ``packages`` (crc32c and zlib) when interpreted.
    """
    if cython.compiled:
        return tuple([native.path_name(i).decode("ascii") for i in range(native.path_count)])
    return ("packages",)


def implementation() -> str:
    """The name, out of `paths`, of the one that `crc32c` and `crc32` run."""
    *_, best = paths()  # an index of -1 reads before the tuple in compiled code, which is built without wraparound
    return best


def crc32c_by(path: str, buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """`crc32c` by a named path. Raises ValueError for one that is not among `paths`."""
    return _update(True, paths().index(path), buffer, crc)


def crc32_by(path: str, buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """`crc32` by a named path. Raises ValueError for one that is not among `paths`."""
    return _update(False, paths().index(path), buffer, crc)


def range_by(path: str, castagnoli: cython.bint, before: cython.uint, through: cython.uint, n: cython.ulonglong) -> int:
    """`crc32c_range`, or `crc32_range`, by a named path. Raises ValueError for one that is not among `paths`."""
    number: cython.int = paths().index(path)
    if cython.compiled:
        if castagnoli:
            return native.crc32c_range_by(number, before, through, n)
        return native.crc32_range_by(number, before, through, n)
    return native.crc32c_range(before, through, n) if castagnoli else native.crc32_range(before, through, n)


def _update(castagnoli, path, buffer, crc):
    if cython.compiled:
        n: cython.Py_ssize_t = buffer.shape[0]
        if n == 0:
            return crc
        p: cython.pointer[cython.const[cython.uchar]] = cython.address(buffer[0])
        with cython.nogil:
            if path < 0:
                crc = native.crc32c(crc, p, 0, n) if castagnoli else native.crc32(crc, p, 0, n)
            else:
                crc = native.crc32c_by(path, p, n, crc) if castagnoli else native.crc32_by(path, p, n, crc)
        return crc
    else:
        return (native.crc32c if castagnoli else native.crc32)(crc, buffer, 0, len(buffer))
