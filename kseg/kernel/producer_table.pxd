# What producers.py and producer_updates.py call in producer_table.py; bodies and reasons stand there.
cdef long long index_of(
    long long producer_id, long long* entries, long long room, long long* slots, long long mask, long long* state
) noexcept nogil
cdef void open_transaction(long long* entries, long long index, long long first, long long* state) noexcept nogil
cdef void close_transaction(long long* entries, long long index, long long* state) noexcept nogil
