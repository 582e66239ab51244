from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# Columns of a change of the leader epoch, and the state of the previous batch.
cpdef enum:
    # -1: a message of v0 or v1, which has none.
    CHANGE_EPOCH = 0
    # Offset of its first batch.
    CHANGE_OFFSET = 1
    # Last offset of the epoch before that, -1 none.
    CHANGE_LAST_OFFSET = 2
    CHANGE_WIDTH = 3

cdef class EpochState:
    cdef public long long epoch, last_offset
    cdef public Py_ssize_t found


# The state of an index build, and the results of a call besides DONE.
cpdef enum:
    # A last offset is below the segment's base offset, or at least 2^31 above it.
    OUTSIDE = 1
    # The offset of an entry is not larger than the previous one; in the time index: smaller.
    NOT_RISING = 2

cdef class IndexBuild:
    cdef public long long base, interval
    cdef public bint uses_first_offset, has_times, takes_any
    cdef public long long last_position, last_offset, largest_timestamp, largest_timestamp_offset
    cdef public long long last_timestamp, last_time_offset
    cdef public Py_ssize_t offsets, times, row
