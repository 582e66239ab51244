from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport KeyHash, Secret
from kseg.kernel.records.cursor cimport FrameCursor

cdef class Replacer(FrameCursor):
    cdef readonly Secret secret
    cdef readonly bint with_header_keys
    cdef readonly Py_ssize_t area_size, row_count
    cdef public long long replaced, keys, values, header_values

include "kseg/kernel/records/replacing.pxi"
