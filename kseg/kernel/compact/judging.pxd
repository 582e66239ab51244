from kseg.kernel.compact.key_map cimport KeyMap

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
cdef bint has_tombstone(const long long* rows, long long count, const unsigned char* keep) noexcept nogil
