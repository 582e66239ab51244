from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef class EventLog:
    cdef public long long limit
    cdef public Py_ssize_t events
    cdef object _buffer
    cdef long long[::1] _rows
    cdef readonly long long[::1] totals, last_about

cdef class Chain(EventLog):
    cdef public long long base, latest_ms, last_offset, last_epoch, first_offset, misplaced, missing
    cdef public long long largest_timestamp, largest_timestamp_offset, least_timestamp
    cdef public long long batches, records, v0, v1, v2
    cdef public long long transactional, control, with_producer, compressed, with_horizon, sparse
    cdef public bint is_after_damage

include "kseg/kernel/scan/headers.pxi"
