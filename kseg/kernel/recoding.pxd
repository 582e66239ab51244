# What others that judge batches take from it.
cdef check_frames(Py_ssize_t length, const long long[::1] frames, Py_ssize_t first, Py_ssize_t stop)
cdef bint check_records(
    const unsigned char* p, Py_ssize_t at, const unsigned char* records, Py_ssize_t end
) noexcept nogil
