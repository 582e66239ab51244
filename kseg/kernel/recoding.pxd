# What others that judge v2 batches take from it.
cdef bint check_records(
    const unsigned char* p, Py_ssize_t at, const unsigned char* records, Py_ssize_t end
) noexcept nogil
