# How following the frames of a segment ends and stands, and the bits that it knows.
from kseg.kernel.native.prefixes cimport Prefixes

cpdef enum:
    # Frames end exactly at the end; rows are full or the budget is spent; what is at the position is no intact frame.
    DONE = 0
    FULL = 1
    IRREGULAR = 2
    # Of the kernel's own: the expansion buffer must be extended.
    NEEDS_BUFFER = 3

cpdef enum:
    # Bits of a scan's manner. Walk the records too; believe checksums; count compressed bytes twice and not eightfold.
    WALK_RECORDS = 1
    BELIEVE_CHECKSUMS = 2
    LONG_RUNS = 4

cdef class FrameScan:
    cdef readonly bint is_07
    cdef public int manner
    cdef public Py_ssize_t position, count
    cdef public long long budget, records, last_offset, largest
    cdef Py_ssize_t resumed, given_up
    cdef unsigned char* out
    cdef Py_ssize_t out_bytes
    cdef void* zstd
    cdef object _tables
    cdef Py_ssize_t prefix_entries
    cdef Prefixes prefixes
