from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef class Area:
    cdef public long long base_offset, base_timestamp, last_offset, largest_timestamp, limit, needed, count
    cdef public bint is_base_given, is_relative
    cdef public int magic, attributes
    cdef readonly Py_ssize_t end, capacity
    cdef unsigned char* out
    cdef unsigned char[::1] _buffer

include "kseg/kernel/records/building.pxi"
