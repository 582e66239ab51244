from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport KeyMap
from kseg.kernel.records.cursor cimport FrameCursor

cdef class Counts:
    cdef public long long records, kept, superseded, tombstones, no_key, discarded_records, discarded_markers
    cdef public long long copied, rewritten, emptied, dropped

cdef class Survivors(FrameCursor):
    cdef readonly KeyMap key_map
    cdef readonly Counts counts
    cdef public long long now_ms, retention_ms
    cdef public bint keeps_format, keeps_tombstones, has_horizons
    cdef public Py_ssize_t size
    cdef readonly Py_ssize_t area_size
    cdef readonly long long base_timestamp, max_timestamp, attributes, kept
    # The output: ``limit`` bytes. ``keep`` marks the retained records of a batch.
    cdef const long long* verdicts
    # Ranges of offsets to erase, which decide instead of the map if there are any.
    cdef readonly object erased
    cdef const long long* ranges
    cdef Py_ssize_t range_count
    cdef unsigned char* out
    cdef Py_ssize_t limit
    cdef unsigned char* keep

include "kseg/kernel/compact/survivors.pxi"
