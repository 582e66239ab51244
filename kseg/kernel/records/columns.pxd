from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor

cdef void check_range(Py_ssize_t length, long long first, long long count) except *

cdef class Collector(FrameCursor):
    cdef public Py_ssize_t row_count, header_count
    cdef readonly bint is_uniform
    cdef readonly long long next_offset, magic, kind, time
    # Whether a frame was read, and the offset behind the frame that is being read.
    cdef bint is_begun
    cdef long long reached

cdef class HeaderOffsets:
    cdef public Py_ssize_t batch
    cdef public long long delta, max_batch_bytes

include "kseg/kernel/records/columns.pxi"
