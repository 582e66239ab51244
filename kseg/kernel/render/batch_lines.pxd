from kseg.kernel.render.lines cimport Line

cdef Py_ssize_t put_bool(unsigned char* out, Py_ssize_t o, bint value) noexcept nogil
cdef Py_ssize_t put_text_kind(unsigned char* out, Py_ssize_t o, int kind) noexcept nogil
cdef Py_ssize_t put_json_kind(unsigned char* out, Py_ssize_t o, int kind) noexcept nogil
cdef Py_ssize_t put_text_batch(
    Line* line, Py_ssize_t o, const unsigned char* p, Py_ssize_t at, const long long* frames, Py_ssize_t frame,
    long long origin
) noexcept nogil
cdef Py_ssize_t put_json_batch(
    Line* line, Py_ssize_t o, const unsigned char* p, const long long* frames, Py_ssize_t frame, long long origin
) noexcept nogil
cdef Py_ssize_t put_codec(unsigned char* out, Py_ssize_t o, int codec) noexcept nogil
cdef Py_ssize_t put_text_v2(unsigned char* out, Py_ssize_t o, const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t put_json_v2(unsigned char* out, Py_ssize_t o, const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t put_json_legacy(
    unsigned char* out, Py_ssize_t o, const unsigned char* p, Py_ssize_t at, long long magic
) noexcept nogil
