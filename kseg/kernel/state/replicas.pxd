from kseg.kernel.layout.rows cimport *

cdef class Side:
    cdef const unsigned char* payload
    cdef const long long* rows
    cdef const long long* headers
    cdef readonly Py_ssize_t count, next
    cdef object _kept

cdef class RecordComparison:
    cdef public bint epochs_differ, is_open
    cdef public long long same, different, last_same
    cdef readonly Py_ssize_t events
    cdef object _buffer
    cdef long long* rows
    cdef Py_ssize_t capacity

include "kseg/kernel/state/replicas.pxi"
