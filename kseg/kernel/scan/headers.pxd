from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef void read_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, bint v07, long long origin, long long* out,
    Py_ssize_t row
) noexcept nogil
cdef void read_marker(
    const unsigned char* p, Py_ssize_t at, long long size, long long* out, Py_ssize_t row
) noexcept nogil
cdef void read_v2(const unsigned char* p, Py_ssize_t at, long long size, long long* out, Py_ssize_t row) noexcept nogil
