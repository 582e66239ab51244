cdef Py_ssize_t lay_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, const long long* wanted, unsigned char* out,
    Py_ssize_t capacity, void* zstd, long long* laid
) noexcept nogil
