cdef class UniformRun:
    cdef public long long next_offset
    cdef readonly long long kind, time, timed

cdef bint is_plain_batch(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef Py_ssize_t count_alike(
    UniformRun run, const unsigned char* p, const long long* frames, Py_ssize_t first, Py_ssize_t stop
) noexcept nogil
