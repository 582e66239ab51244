cdef class Secret:
    cdef readonly long long low, high

cdef struct SipState:
    unsigned long long v0
    unsigned long long v1
    unsigned long long v2
    unsigned long long v3

# The two halves of a hash of 128 bits.
cdef struct KeyHash:
    long long high
    long long low

cdef void hash_key(const unsigned char* p, Py_ssize_t at, long long size, Secret secret, KeyHash* found) noexcept nogil
