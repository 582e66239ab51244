# What a stretch of a file takes from it.
cdef int scan_frames(
    const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity, bint v07,
    unsigned int* table_c, unsigned int* table_ieee, long long* state, long long largest, Py_ssize_t first,
    unsigned char* out, Py_ssize_t room_bytes, void* zstd, Py_ssize_t given_up
) noexcept nogil
cdef bint all_proven(const long long* rows, Py_ssize_t count) noexcept nogil
