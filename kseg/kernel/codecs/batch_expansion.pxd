cdef Py_ssize_t expand_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, const long long* wanted, unsigned char* out,
    Py_ssize_t capacity, void* zstd, long long* expanded
) noexcept nogil
