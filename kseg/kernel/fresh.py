"""Room that says nothing yet, for one who writes each byte of it before it is read: zeros cost time."""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize

COMPILED = cython.compiled


def fresh(size: cython.Py_ssize_t) -> memoryview:
    """So many bytes."""
    if size < 0:
        raise ValueError("no size is negative")
    if cython.compiled:
        return memoryview(PyByteArray_FromStringAndSize(cython.NULL, size))
    else:
        return memoryview(bytearray(size))


def lengthen(data: bytearray, size: cython.Py_ssize_t) -> None:
    """Makes it so many bytes longer. Raises BufferError while anybody looks at it."""
    if size < 0 or size > 0x7FFFFFFFFFFFFFFF - len(data):
        raise ValueError("no such size")
    if cython.compiled:
        PyByteArray_Resize(data, len(data) + size)
    else:
        data += bytes(size)
