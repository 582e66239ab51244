from kseg.kernel.records.plain cimport PassPosition, PlainFrames

cpdef enum:
    # Columns of ``wanted``.
    WANTED_FIRST = 0
    WANTED_LAST = 1
    WANTED_EARLIEST = 2
    WANTED_LATEST = 3
    WANTED_WIDTH = 4

    # Parts of a row.
    KEYS = 1
    VALUES = 2
    HEADERS = 4

cdef class Collector(PassPosition):
    cdef public Py_ssize_t row_count, header_count
    cdef PlainFrames plain

cdef bint is_outside(const unsigned char* p, const long long* frame, const long long* wanted) noexcept nogil
cdef long long kind_of(long long check) noexcept nogil
cdef int collect_rows(Collector collector, Py_ssize_t stop, const long long* wanted) noexcept nogil
cdef void check_rows(Py_ssize_t length, Py_ssize_t stop) except *
cdef void check_headers(Py_ssize_t length, long long first, long long count) except *
