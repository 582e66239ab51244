from kseg.kernel.layout.rows cimport *

cdef Py_ssize_t pack_rows(
    const unsigned char* p, const long long* rows, Py_ssize_t count, long long origin, unsigned char* out
) noexcept nogil

cdef Py_ssize_t put_uvarint(unsigned char* out, Py_ssize_t at, unsigned long long value) noexcept nogil
