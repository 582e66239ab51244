"""Memory and files at a level that Python does not reach: guarded mappings, uninitialised buffers, early writes.

A guarded mapping survives the truncation of its file: lost pages read as zeros, instead of ending the process with
SIGBUS. There is one table of them in a process (guard.h). Only a compiled kernel on a POSIX system can guard. If
`CAN_GUARD` is false, read a file that may change instead of mapping it.
"""

import mmap
from threading import Lock

import cython
from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize

CAN_GUARD: bool = bool(guard_available()) if cython.compiled else False
_LARGE_BYTES = 1 << 20

_lock = Lock()


def guard(buffer: cython.const[cython.uchar][::1]) -> None:
    """Guards a read-only mapping of a file until `unguard`, which must come before it is unmapped.

    Keeps no reference to it. Raises RuntimeError if not `CAN_GUARD`, or if 1024 mappings are guarded already. The
    mapping must not be read then if its file may be truncated.
    """
    if not CAN_GUARD:
        raise RuntimeError("the kernel cannot guard a mapping here")
    if len(buffer) == 0:
        return
    with _lock:
        status: cython.int = guard_add(cython.address(buffer[0]), len(buffer))
    if status != 0:
        raise RuntimeError(f"cannot guard a mapping: {KSEG_GUARD_MAX} are guarded, or no signal handler")


def unguard(buffer: cython.const[cython.uchar][::1]) -> None:
    """Ends `guard` and resets `was_cut`. No effect on a mapping that is not guarded."""
    if CAN_GUARD and len(buffer):
        with _lock:
            guard_remove(cython.address(buffer[0]))


def was_cut(buffer: cython.const[cython.uchar][::1]) -> bool:
    """Whether a page of a guarded mapping was read beyond the end of its file, as zeros.

    A truncation inside the last page is not noticed: its bytes read as zeros without a fault. Compare the size of the
    file too.
    """
    if not CAN_GUARD or len(buffer) == 0:
        return False
    with _lock:
        return guard_hit(cython.address(buffer[0])) != 0


def keep_freed_memory() -> None:
    """Lets the process keep up to 16 MiB of freed memory per thread for reuse. For programs, not for libraries."""
    if cython.compiled:
        keep_freed()


def begin_writing(descriptor: cython.int, position: cython.longlong, size: cython.longlong) -> None:
    """Starts writing ``size`` bytes from ``position`` on to disk, so that the final fsync of the file is short.

    It does not wait, gives no guarantee, and has no effect but on Linux. Errors are reported by the fsync.
    """
    if cython.compiled:
        with cython.nogil:
            write_behind(descriptor, position, size)


STEP_BYTES = 4 << 20
"""Bytes that `WriteBehind` starts to write at a time."""


class WriteBehind:
    """Tracks the bytes written to the file of a descriptor, and starts their writeback. Without it the whole file would
    be written by the sync, while nothing else runs."""

    def __init__(self, descriptor) -> None:
        self.descriptor = descriptor
        self._begun = self._end = 0

    def wrote(self, size) -> None:
        """Records that ``size`` more bytes have been appended."""
        self._end += size
        if self._end - self._begun >= STEP_BYTES:
            begin_writing(self.descriptor, self._begun, self._end - self._begun)
            self._begun = self._end


def allocate(size: cython.Py_ssize_t) -> memoryview:
    """Returns an uninitialised buffer, which saves the time that zeros take. Write each byte before reading it.

    Raises ValueError if the size is negative.
    """
    if size < 0:
        raise ValueError("no size is negative")
    if cython.compiled:
        return memoryview(PyByteArray_FromStringAndSize(cython.NULL, size))
    else:
        if size < _LARGE_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
            return memoryview(bytearray(size))
        # A bytearray is written with zeros; pages of a mapping take memory when they are used.
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def lengthen(data: bytearray, size: cython.Py_ssize_t) -> None:
    """Appends ``size`` bytes to ``data``. Raises BufferError while a view of it exists, ValueError for a wrong size."""
    if size < 0 or size > 0x7FFFFFFFFFFFFFFF - len(data):
        raise ValueError("no such size")
    if cython.compiled:
        PyByteArray_Resize(data, len(data) + size)
    else:
        data += bytes(size)
