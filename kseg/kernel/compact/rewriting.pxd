cdef Py_ssize_t put_records(
    const unsigned char* p, const long long* rows, const unsigned char* keep, long long count, long long base_offset,
    long long base_timestamp, unsigned char* out, Py_ssize_t at
) noexcept nogil
cdef void put_header(
    unsigned char* out, Py_ssize_t at, Py_ssize_t end, const unsigned char* p, Py_ssize_t model, long long attributes,
    long long base_timestamp, long long max_timestamp, long long count
) noexcept nogil
cdef Py_ssize_t put_record(
    const unsigned char* p, const long long* row, Py_ssize_t at_row, long long base_offset, long long base_timestamp,
    unsigned char* out, Py_ssize_t at
) noexcept nogil
