# For the loops of a compaction.
cdef int open_batch(
    const unsigned char* p, Py_ssize_t at, long long size, unsigned char* out, Py_ssize_t capacity, void* zstd,
    long long* span
) noexcept nogil
cdef int read_batch(
    const unsigned char* p, Py_ssize_t at, const unsigned char* payload, const long long* span, long long* rows
) noexcept nogil
