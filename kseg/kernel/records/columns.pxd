from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor

cdef void check_range(Py_ssize_t length, long long first, long long count) except *

cpdef enum:
    # Columns of ``wanted``.
    WANTED_FIRST, WANTED_LAST, WANTED_EARLIEST, WANTED_LATEST, WANTED_WIDTH

    # Parts of a row.
    KEYS = 1
    VALUES = 2
    HEADERS = 4

cdef class Collector(FrameCursor):
    cdef public Py_ssize_t row_count, header_count
    cdef readonly bint is_uniform
    cdef readonly long long next_offset, magic, kind, time
    # Whether a frame was read, and the offset behind the frame that is being read.
    cdef bint is_begun
    cdef long long reached

cdef bint is_outside(Collector collector, const long long* wanted) noexcept nogil
cdef bint continues_run(Collector collector) noexcept nogil
cdef int collect_rows(Collector collector, const long long* wanted) noexcept nogil

cdef class HeaderOffsets:
    cdef public Py_ssize_t batch
    cdef public long long delta, max_batch_bytes

cdef bint is_given(const long long* rows, Py_ssize_t batch, long long max_batch_bytes) noexcept nogil
