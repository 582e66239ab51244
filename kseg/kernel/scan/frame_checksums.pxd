# Shared with kseg.kernel.scan.frames.
from kseg.kernel.native.prefixes cimport Prefixes

cdef bint crc_is_right(
    Prefixes* prefixes, const unsigned char* p, Py_ssize_t i, Py_ssize_t after, bint v07
) noexcept nogil
