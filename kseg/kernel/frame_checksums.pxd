# Shared with kseg.kernel.frames.
cdef bint crc_is_right(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t after, bint v07,
    unsigned int* table_c, unsigned int* table_ieee, long long* state
) noexcept nogil
cdef bint tables_reach(Py_ssize_t size, Py_ssize_t entries) noexcept nogil
