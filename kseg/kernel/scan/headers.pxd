# What a stretch of a file takes from it.
cdef void read_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, bint v07, long long origin, long long* out
) noexcept nogil
