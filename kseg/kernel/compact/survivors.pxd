from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport KeyMap
from kseg.kernel.records.cursor cimport FrameCursor

cdef enum:
    # Records that are hashed before the first of them is looked up: their slots arrive meanwhile.
    GROUP = 64

cdef class Counts:
    cdef public long long records, kept, superseded, tombstones, no_key, discarded_records, discarded_markers
    cdef public long long copied, rewritten, emptied, dropped

cdef long long judge(
    KeyMap key_map, const unsigned char* payload, const long long* rows, long long count, bint is_protected,
    unsigned char* keep, Counts counts
) noexcept nogil

cpdef enum:
    # Verdicts on a batch. DISCARD: drop its records unread. KEEP_EMPTY: keep at least its header. EMPTY_TXN: it is the
    # marker of a transaction without retained records. ALL: keep all records (control batches). COPY: copy the batch
    # unread.
    DISCARD = 1
    KEEP_EMPTY = 2
    EMPTY_TXN = 4
    ALL = 8
    COPY = 16

cdef long long mark_outside(
    const long long* ranges, Py_ssize_t count, const long long* rows, long long records, unsigned char* keep
) noexcept nogil

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

cdef long long retain(
    Survivors survivors, const unsigned char* payload, long long records, bint is_protected
) noexcept nogil
cdef int write_message(Survivors survivors, Py_ssize_t at) noexcept nogil
cdef int open_records(Survivors survivors, Py_ssize_t at) noexcept nogil
cdef int write_batch(Survivors survivors, Py_ssize_t at) noexcept nogil
cdef int copy(Survivors survivors, Py_ssize_t at) noexcept nogil
cdef int rewrite(Survivors survivors, Py_ssize_t at, long long kept, bint needs_horizon) noexcept nogil
cdef bint has_room(Survivors survivors, long long size) noexcept nogil
