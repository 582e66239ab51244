# Results, options and state of a scan over the frames of a segment.
from kseg.kernel.native.prefixes cimport Prefixes

cpdef enum:
    # DONE: frames end exactly at the end. FULL: the rows are full or the budget is spent. IRREGULAR: no intact frame
    # begins at the position.
    DONE = 0
    FULL = 1
    IRREGULAR = 2
    # Internal: the expansion buffer must be extended.
    NEEDS_BUFFER = 3

cpdef enum:
    # Options of a scan. WALK_RECORDS: check the records too. SKIP_CHECKSUMS: don't compute checksums. LONG_RUNS:
    # count compressed bytes twofold instead of eightfold.
    WALK_RECORDS = 1
    SKIP_CHECKSUMS = 2
    LONG_RUNS = 4

cdef class FrameScan:
    cdef readonly bint is_07
    cdef public int options
    cdef public Py_ssize_t position, count
    cdef public long long budget, records, last_offset, largest
    cdef Py_ssize_t resumed, unexpandable
    cdef unsigned char* out
    cdef Py_ssize_t out_bytes
    cdef void* zstd
    # The memory of the prefix tables.
    cdef object _castagnoli_crcs, _ieee_crcs
    cdef Py_ssize_t prefix_entries
    cdef Prefixes prefixes
