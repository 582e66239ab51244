from kseg.kernel.layout.rows cimport Bytes

cdef extern from "search.h" nogil:
    ctypedef struct search_state "struct kseg_search":
        pass

include "kseg/kernel/native/search.pxi"
