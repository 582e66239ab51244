"""Checksums for Python callers: CRC-32C (batches of magic 2) and CRC-32 (messages of magic 0 and 1, and of 0.7).

The loops of the kernel call native.h directly. Tests can choose another implementation here.
"""

import cython
from cython.cimports.kseg.kernel.layout import rows as native

native.native_setup()


def crc32c(buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """Returns the CRC-32C of a contiguous buffer of bytes, after ``crc``, the CRC of the preceding bytes."""
    n: cython.Py_ssize_t = len(buffer)
    p: cython.pointer[cython.const[cython.uchar]] = native.bytes_in(buffer)
    with cython.nogil:
        crc = native.crc32c(crc, p, 0, n)
    return crc


def crc32(buffer: cython.const[cython.uchar][::1], crc: cython.uint = 0) -> int:
    """Returns the CRC-32 of zlib of a contiguous buffer of bytes, after ``crc``."""
    n: cython.Py_ssize_t = len(buffer)
    p: cython.pointer[cython.const[cython.uchar]] = native.bytes_in(buffer)
    with cython.nogil:
        crc = native.crc32(crc, p, 0, n)
    return crc


def paths() -> tuple[str, ...]:
    """Returns the implementations of both checksums that this machine can run, slowest first; the last one is used.

    ``table``, ``sse42``, ``armv8`` when compiled; ``packages`` (crc32c and zlib) when interpreted.
    """
    return tuple([native.path_name(i).decode("ascii") for i in range(native.path_count)])


def implementation() -> str:
    """Returns the name, among `paths`, of the implementation that `crc32c` and `crc32` use."""
    *_, best = paths()  # compiled without wraparound, an index of -1 would read before the tuple
    return best


def use_path(path: str) -> None:
    """For tests: computes `crc32c` and `crc32` by one of `paths` from now on. Raises ValueError for any other name."""
    native.use_path(paths().index(path))
