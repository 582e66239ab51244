from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor

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

cdef class KeyMap:
    cdef readonly Secret secret
    cdef long long[::1] _table
    cdef readonly long long slots, max_count, count
    cdef public long long latest_offset

cdef class KeyReader(FrameCursor):
    cdef readonly Secret secret
    cdef readonly long long least
    cdef public Py_ssize_t keys
    cdef const long long* verdicts

include "kseg/kernel/compact/key_map.pxi"
