from kseg.kernel.scan.frame_scan cimport FrameScan

cdef int walk_frame(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
cdef int walk_message(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
