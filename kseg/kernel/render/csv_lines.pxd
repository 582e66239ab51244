cdef class TextColumn:
    cdef const unsigned char* p
    cdef const unsigned char[::1] data
    cdef const int[::1] ends
    cdef const unsigned char[::1] valid

cdef class CsvLines:
    cdef public Py_ssize_t written, needed
    cdef Py_ssize_t count
    cdef const unsigned char[::1] place
    cdef const long long[::1] offsets, times
    cdef const unsigned char[::1] timed
    cdef const int[::1] kinds
    cdef TextColumn keys, values
    cdef const int[::1] header_ends

cdef bint is_set(const unsigned char[::1] bits, Py_ssize_t i) noexcept nogil
cdef Py_ssize_t put_field(
    unsigned char* out, Py_ssize_t o, const unsigned char* text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t limit
) noexcept nogil
cdef Py_ssize_t put_lines(
    CsvLines lines, Py_ssize_t i, unsigned char* out, Py_ssize_t limit, const unsigned char* place, Py_ssize_t size
) noexcept nogil
