from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.frame_scan cimport FrameScan

cpdef enum:
    # Results; `WindowedScan.follow` explains them.
    ENDED, PAUSED, NEEDS_CHECK, STUCK

cdef extern from "file_io.h" nogil:
    long long read_at "kseg_read_at"(int descriptor, unsigned char* out, long long size, long long position)

cdef class WindowedScan:
    cdef public long long origin, filled
    cdef public Py_ssize_t frame_count, header_count
    cdef FrameScan scan
    cdef int descriptor
    cdef long long base, end
    cdef bint has_more
    cdef unsigned char* window
    cdef long long window_bytes
    cdef long long* frames
    cdef Py_ssize_t frame_capacity
    cdef long long* headers
    cdef Py_ssize_t header_capacity

cdef long long wanted_bytes(WindowedScan windows, long long rest) noexcept nogil
cdef long long fill(WindowedScan windows) noexcept nogil
cdef void append_headers(WindowedScan windows, const unsigned char* data) noexcept nogil
cdef long long follow_windows(WindowedScan windows, long long end_position) noexcept nogil
