from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef extern from "codecs.h" nogil:
    # Returned instead of a number of bytes; codecs.h explains them.
    enum:
        REFUSED "KSEG_EXPAND_REFUSED"
        BUFFER_FULL "KSEG_EXPAND_BUFFER_FULL"
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
cdef Py_ssize_t expand_area(
    int codec, int magic, const unsigned char* p, Py_ssize_t n, unsigned char* out, Py_ssize_t capacity, void* zstd
) noexcept nogil

cdef class BlockOutput:
    cdef object _block, _out
    cdef const unsigned char* p
    cdef unsigned char* out
    cdef Py_ssize_t size, capacity, input
    cdef readonly Py_ssize_t position
    cdef readonly bint is_whole

cdef bint copy_literals(BlockOutput output, Py_ssize_t count) noexcept nogil
cdef bint copy_match(BlockOutput output, Py_ssize_t distance, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t little_endian(BlockOutput output, Py_ssize_t width) noexcept nogil
cdef Py_ssize_t more_of(BlockOutput output, Py_ssize_t length) noexcept nogil
