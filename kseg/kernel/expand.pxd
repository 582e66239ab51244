# What the walk over frames takes from it.
cdef Py_ssize_t expand_area(
    int codec, int magic, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity, void* zstd
) noexcept nogil

cdef class Room:
    cdef unsigned char[::1] out
    cdef void* zstd
    cdef object _buffer
    cdef object _functions
    cdef Py_ssize_t _limit
    cdef readonly Py_ssize_t capacity
