# What writes the records of batches elsewhere too.
cdef Py_ssize_t write_records(
    const unsigned char* p, const long long* rows, const long long* headers, Py_ssize_t first, Py_ssize_t stop,
    long long* state, unsigned char* out, Py_ssize_t room
) noexcept nogil
