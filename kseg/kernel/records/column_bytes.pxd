cdef Py_ssize_t gather_bytes(
    const unsigned char* payload, Py_ssize_t length, const long long* fields, Py_ssize_t count, Py_ssize_t width,
    unsigned char* data, Py_ssize_t capacity, int* ends, unsigned char* valid, Py_ssize_t at
) noexcept nogil
cdef Py_ssize_t keep_rows_with_key(
    const unsigned char* payload, Py_ssize_t length, long long* rows, Py_ssize_t count, const unsigned char* key,
    Py_ssize_t key_size
) noexcept nogil
cdef void check_capacity(Py_ssize_t length, Py_ssize_t at, Py_ssize_t count) except *
