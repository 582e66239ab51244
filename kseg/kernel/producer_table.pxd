# What kseg.kernel.producers calls in producer_table.py; the functions' bodies and their reasons stand there.
cdef long long find(
    long long producer_id, const long long* entries, const long long* slots, long long mask, long long seed
) noexcept nogil
cdef void open_transaction(long long* entries, long long index, long long first, long long* state) noexcept nogil
cdef void close_transaction(long long* entries, long long index, long long* state) noexcept nogil
