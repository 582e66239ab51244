# Shared with kseg.kernel.frames.
from kseg.kernel.prefixes cimport Prefixes

cdef bint crc_is_right(
    Prefixes* prefixes, const unsigned char* p, Py_ssize_t i, Py_ssize_t after, bint v07
) noexcept nogil
