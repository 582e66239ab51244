from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef class KeyIndex:
    cdef object _table
    cdef long long* table
    cdef long long mask
    cdef unsigned long long seed

cdef unsigned long long key_of(KeyIndex index, BytesIn buffer, long long origin, Int64sIn rows, Py_ssize_t i) except? 0

include "kseg/kernel/scan/pieces.pxi"
