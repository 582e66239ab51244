# For the renderer of decoded records.
from kseg.kernel.escape cimport Counters

cdef Py_ssize_t put_fields(unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p,
                           const long long* row, const long long* headers, int magic, int kind, int flags,
                           Counters* counters) noexcept nogil
