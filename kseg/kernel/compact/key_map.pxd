# The map of a compaction, for the loop that judges records.
from kseg.kernel.compact.key_hash cimport KeyHash, Secret

cpdef enum:
    # Columns of an entry: the halves of the hash, and the offset + 1; 0 there is a free slot.
    SLOT_HIGH = 0
    SLOT_LOW = 1
    SLOT_OFFSET = 2
    ENTRY_WIDTH = 3

cdef class KeyMap:
    cdef readonly Secret secret
    cdef long long[::1] _table
    cdef readonly long long slots, most, count
    cdef public long long latest_offset

cdef void ask_for(KeyMap key_map, long long high) noexcept nogil
cdef long long last_offset(KeyMap key_map, const KeyHash* key) noexcept nogil
