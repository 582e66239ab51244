from kseg.kernel.layout.rows cimport Bytes, OutBytes

ctypedef const char* Text

cdef extern from "escape.h" nogil:
    # Tests disable SIMD loops by it.
    int can_shuffle "kseg_can_shuffle"

include "kseg/kernel/native/escape.pxi"
