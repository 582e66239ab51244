from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# Checks of headers without a valid checksum.
cpdef enum:
    # Bytes of an entry up to and including its magic. A rest of a file of at most this size has no header to judge.
    SHORT_TAIL_BYTES = 17

cdef long long claimed_bytes(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, bint v07, long long largest
) noexcept nogil
cdef bint goes_on(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long last_offset) noexcept nogil
cdef long long last_offset_at(const unsigned char* p, Py_ssize_t i, Py_ssize_t end) noexcept nogil
cdef long long last_offset_claimed(const unsigned char* p, Py_ssize_t i, Py_ssize_t end) noexcept nogil
cdef long long compressed_end(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long last_offset
) noexcept nogil
cdef bint offset_goes_on(long long offset, long long last_offset) noexcept nogil
cdef bint message_sizes_fit(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long size) noexcept nogil
cdef bint begins_stream(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int codec) noexcept nogil
