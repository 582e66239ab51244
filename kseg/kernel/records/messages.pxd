from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# Positions of the fields of an entry, and its stored sizes.
cdef struct Message:
    Py_ssize_t after
    int magic
    Py_ssize_t key
    long long key_size
    Py_ssize_t value
    long long value_size

cdef class MessageWalk:
    cdef public Py_ssize_t position, row_count
    cdef public long long count, last_offset, misfits, base
    cdef long long timestamp
    cdef int kind, mode

include "kseg/kernel/records/messages.pxi"
