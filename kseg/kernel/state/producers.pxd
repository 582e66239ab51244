from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.headers cimport EventLog

cdef class ProducerTable(EventLog):
    cdef readonly long long producers, open, oldest, youngest, capacity
    cdef public long long seed, idle_ms, now_ms, stop, largest_offset, after_hole, after_damage
    cdef public bint as_broker, is_after_damage, is_full
    cdef public long long newest_data, newest_marker, batches, committed, aborted, first_ended
    cdef public Py_ssize_t aborts, differing, differing_open
    cdef object _entries, _slots, _abort_rows
    cdef long long* entries
    cdef long long* slots
    cdef long long mask
    cdef long long* abort_rows
    cdef Py_ssize_t abort_capacity

include "kseg/kernel/state/producers.pxi"
