"""Uninitialised buffers, which save the time that zeros take. Callers must write every byte before reading it."""

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize
else:
    import mmap


_LARGE_BYTES = 1 << 20


def allocate(size: cython.Py_ssize_t) -> memoryview:
    """Returns a buffer of ``size`` bytes. Raises ValueError if the size is negative."""
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
