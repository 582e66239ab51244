# For the renderers: the line of a batch.
from kseg.kernel.escape cimport Context

cdef Py_ssize_t put_text_batch(unsigned char* out, Py_ssize_t o, const unsigned char* p, Py_ssize_t at,
                               const long long* frame, long long base) noexcept nogil
cdef Py_ssize_t put_json_batch(unsigned char* out, Py_ssize_t o, const unsigned char* p, const long long* frame,
                               long long base, const Context* context) noexcept nogil
cdef take_context(Context* pieces, tuple context)
