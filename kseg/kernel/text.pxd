# For the renderer of decoded records.
from kseg.kernel.escape cimport Counters

cdef Py_ssize_t put_metadata(unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p,
                             const long long* row, const long long* headers, int magic, int kind, int flags,
                             Counters* counters) noexcept nogil
cdef bint put_frame_line(unsigned char* out, Py_ssize_t capacity, const unsigned char* p, Py_ssize_t length,
                         const long long* frame, long long* state) noexcept nogil
