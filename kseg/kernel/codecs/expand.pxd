from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef extern from "codecs.h" nogil:
    void use_function "kseg_use_function"(bint is_zstd, int number, size_t address)
    bint is_known "kseg_is_known"(bint is_zstd)
    Py_ssize_t lz4 "kseg_lz4"(
        const unsigned char* p, Py_ssize_t n, bint verify_header, unsigned char* out, Py_ssize_t capacity
    )
    void* zstd_create "kseg_zstd_create"()
    void zstd_destroy "kseg_zstd_destroy"(void* context)
    Py_ssize_t zstd_expand "kseg_zstd"(
        void* context, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity
    )

# A buffer for decompressed bytes, and a context of libzstd. NULL: nothing is decompressed.
cdef struct Expansion:
    unsigned char* out
    Py_ssize_t capacity
    void* zstd

cdef class ExpansionBuffer:
    cdef unsigned char[::1] out
    cdef void* zstd
    cdef object _buffer
    cdef object _functions
    cdef Py_ssize_t _limit
    cdef readonly Py_ssize_t capacity

cdef int use_expansion(Expansion* expansion, ExpansionBuffer buffer) except -1

include "kseg/kernel/codecs/expand.pxi"
