# Shared with the renderers: a call across modules costs nothing beside a batch.
cdef int read_records(
    const unsigned char* p, Py_ssize_t end, long long* cursor, const long long* batch,
    long long* rows, Py_ssize_t row_capacity, long long* headers, Py_ssize_t header_capacity,
) noexcept nogil
cdef int pass_records(
    const unsigned char* p, Py_ssize_t end, long long* cursor, const long long* batch
) noexcept nogil
