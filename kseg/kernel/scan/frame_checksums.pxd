from kseg.kernel.native.prefixes cimport PrefixTable, Prefixes

cdef bint crc_is_right(
    Prefixes* prefixes, const unsigned char* p, Py_ssize_t i, Py_ssize_t after, bint v07
) noexcept nogil
cdef Py_ssize_t fill(
    PrefixTable* table, bint castagnoli, const unsigned char* p, Py_ssize_t anchor, Py_ssize_t x
) noexcept nogil
cdef unsigned int prefix_through(
    PrefixTable* table, bint castagnoli, const unsigned char* p, Py_ssize_t anchor, Py_ssize_t x, bint is_end
) noexcept nogil
