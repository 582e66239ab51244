# What a stretch of a file takes from it.
from kseg.kernel.codecs.expand cimport Room
from kseg.kernel.scan.frame_scan cimport FrameScan

cdef int scan_frames(
    FrameScan scan, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity
) noexcept nogil
cdef void extend_room(FrameScan scan, int codec, Room room)
cdef bint all_proven(const long long* rows, Py_ssize_t count) noexcept nogil
