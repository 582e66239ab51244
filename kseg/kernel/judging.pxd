# For the loop over the batches of a window.
cdef long long judge(
    const unsigned char* payload, const long long* rows, long long count, bint is_protected, long long latest,
    const long long* secret, const long long* table, long long slots, long long* hashes, unsigned char* keep,
    long long* counts
) noexcept nogil
cdef bint has_tombstone(const long long* rows, long long count, const unsigned char* keep) noexcept nogil
