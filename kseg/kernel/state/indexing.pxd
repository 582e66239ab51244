# The state of an index build, and the results of a call.
cpdef enum:
    DONE = 0
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

cdef int index_rows(
    const long long* rows, Py_ssize_t count, IndexBuild build, unsigned char* offsets, unsigned char* times
) noexcept nogil
