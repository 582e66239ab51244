from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.headers cimport EventLog

cdef class EpochState:
    cdef public long long epoch, last_offset
    cdef public Py_ssize_t found

cdef class IndexBuild:
    cdef public long long base, interval
    cdef public bint uses_first_offset, has_times, takes_any
    cdef public long long last_position, last_offset, largest_timestamp, largest_timestamp_offset
    cdef public long long last_timestamp, last_time_offset
    cdef public Py_ssize_t offsets, times, row

cdef class EntryWalk(EventLog):
    cdef readonly int width
    cdef readonly long long first, loaded
    cdef public long long base, total, next
    cdef public bint is_short, is_held, has_unseen, is_doubted, has_v2
    cdef public long long held_entry, held_offset, held_value, before_offset, before_value
    cdef public long long end, last_offset, largest, certain, pending, pending_entry, indexed, farthest, farthest_at
    cdef object _window
    cdef const unsigned char* data

include "kseg/kernel/state/indexing.pxi"
