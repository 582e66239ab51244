cdef class Packer:
    cdef readonly int codec
    cdef void* context

cdef Py_ssize_t pack_area(
    int codec, void* context, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
) noexcept nogil
