from kseg.kernel.layout.rows cimport *

cdef class BlockOutput:
    cdef object _block, _out
    cdef const unsigned char* p
    cdef unsigned char* out
    cdef Py_ssize_t size, capacity, input
    cdef readonly Py_ssize_t position
    cdef readonly bint is_whole

cdef bint copy_literals(BlockOutput output, Py_ssize_t count) noexcept nogil
cdef bint copy_match(BlockOutput output, Py_ssize_t distance, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t little_endian(BlockOutput output, Py_ssize_t width) noexcept nogil
cdef Py_ssize_t more_of(BlockOutput output, Py_ssize_t length) noexcept nogil
