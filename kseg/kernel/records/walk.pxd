# What the scan over frames takes from it.
from kseg.kernel.scan.frame_scan cimport FrameScan

cdef int walk_frame(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
