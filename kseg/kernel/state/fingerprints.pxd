from kseg.kernel.layout.rows cimport *

cdef Py_ssize_t put_uvarint(unsigned char* out, Py_ssize_t at, unsigned long long value) noexcept nogil
