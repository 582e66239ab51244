# What the scan over frames takes from it.
cdef int walk_frame(
    const unsigned char* p, Py_ssize_t i, long long size, long long* state,
    unsigned char* out, Py_ssize_t capacity, void* zstd
) noexcept nogil
