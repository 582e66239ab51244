# For the loop that judges records.
cdef void ask_for(const long long* table, long long slots, long long h) noexcept nogil
cdef long long find_entry(const long long* table, long long slots, long long h, long long g) noexcept nogil
cdef void check(long long[::1] table, long long[::1] state) except *
