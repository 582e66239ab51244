cdef class HeaderOffsets:
    cdef public Py_ssize_t batch
    cdef public long long delta, max_batch_bytes

cdef bint is_given(const long long* rows, Py_ssize_t batch, long long max_batch_bytes) noexcept nogil
cdef Py_ssize_t fill_offsets(
    HeaderOffsets progress, const long long* rows, Py_ssize_t stop, const long long* wanted, long long* out,
    Py_ssize_t capacity, Py_ssize_t at
) noexcept nogil
