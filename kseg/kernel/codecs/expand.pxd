from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef extern from "expand.h" nogil:
    # Returned instead of a number of bytes; expand.h explains them.
    enum:
        REFUSED "KSEG_EXPAND_REFUSED"
        BUFFER_FULL "KSEG_EXPAND_BUFFER_FULL"

cdef Py_ssize_t expand_batch(
    const unsigned char* p, Py_ssize_t at, long long size, unsigned char* out, Py_ssize_t capacity, void* zstd
) noexcept nogil

cdef class ExpansionBuffer:
    cdef unsigned char[::1] out
    cdef void* zstd
    cdef object _buffer
    cdef object _functions
    cdef Py_ssize_t _limit
    cdef readonly Py_ssize_t capacity
cdef Py_ssize_t expand_area(
    int codec, int magic, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity, void* zstd
) noexcept nogil
