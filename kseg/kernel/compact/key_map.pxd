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

cdef void hash_key(const unsigned char* p, Py_ssize_t at, long long size, Secret secret, KeyHash* found) noexcept nogil

cpdef enum:
    # Columns of a slot and of an entry: the halves of the hash, and the offset. A slot has the offset + 1; with 0 it is
    # free.
    SLOT_HIGH, SLOT_LOW, SLOT_OFFSET, ENTRY_WIDTH

cdef class KeyMap:
    cdef readonly Secret secret
    cdef long long[::1] _table
    cdef readonly long long slots, max_count, count
    cdef public long long latest_offset

cdef void prefetch_slot(KeyMap key_map, long long high) noexcept nogil
cdef long long last_offset(KeyMap key_map, const KeyHash* key) noexcept nogil

cdef unsigned long long rotated(unsigned long long x, int bits) noexcept nogil
cdef void mix_rounds(SipState* state, int rounds) noexcept nogil
cdef void mix_word(SipState* state, unsigned long long word) noexcept nogil
cdef long long slot_of(long long half, long long slots) noexcept nogil
cdef long long find_entry(KeyMap key_map, long long high, long long low) noexcept nogil
cdef void copy_entry(KeyMap key_map, long long at, long long[::1] out, long long to) noexcept nogil

cpdef enum:
    # Verdict: skip the keys of the batch, which is aborted.
    SKIP = 1

cdef class KeyReader(FrameCursor):
    cdef readonly Secret secret
    cdef readonly long long least
    cdef public Py_ssize_t keys
    cdef const long long* verdicts

cdef void hash_rows(
    KeyReader reader, const unsigned char* payload, const long long* rows, long long count, long long[::1] hashes,
    long long[::1] offsets
) noexcept nogil
cdef bint has_no_keys(KeyReader reader) noexcept nogil
