from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.frame_scan cimport FrameScan

cdef int walk_frame(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil

cdef int scan_frames(
    FrameScan scan, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity
) noexcept nogil
cdef bint all_proven(const long long* rows, Py_ssize_t count) noexcept nogil
cdef long long wrong_batch_bytes(FrameScan scan, const unsigned char* p, Py_ssize_t i, Py_ssize_t end) noexcept nogil
cdef bint is_usual(FrameScan scan, const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef Py_ssize_t find_frame(
    FrameScan scan, const unsigned char* p, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end
) noexcept nogil
cdef Py_ssize_t find_behind(
    FrameScan scan, const unsigned char* p, Py_ssize_t i, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end
) noexcept nogil

cdef bint is_frame(
    FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size, Py_ssize_t wrong
) noexcept nogil
cdef long long weight_of(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
