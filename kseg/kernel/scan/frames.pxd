from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport Expansion

cdef struct PrefixTable:
    # Of the bytes from the anchor to the start of each block.
    unsigned int* crcs
    # Number of valid entries.
    long long filled

cdef struct Prefixes:
    # Position of the first byte, -1: not in use.
    long long anchor
    # Bytes of frames whose CRC was computed without prefixes.
    long long direct_bytes
    PrefixTable castagnoli
    PrefixTable ieee

cdef class FrameScan:
    cdef readonly bint is_07
    cdef public int options
    cdef public Py_ssize_t position, count
    cdef public long long budget, last_offset, largest, largest_offset
    cdef Py_ssize_t resumed, unexpandable
    cdef Expansion expansion
    # The memory of the prefix tables.
    cdef object _castagnoli_crcs, _ieee_crcs
    cdef Py_ssize_t prefix_entries
    cdef Prefixes prefixes

cpdef bint offset_continues(long long offset, long long last_offset) noexcept nogil

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

include "kseg/kernel/scan/frames.pxi"
