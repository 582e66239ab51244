# What kseg.kernel.producers calls in producer_updates.py; the functions' bodies and their reasons stand there.
cdef void tell(
    long long* state, long long* events, Py_ssize_t capacity, long long kind, Py_ssize_t i, long long a, long long b,
    long long c
) noexcept nogil
cdef void replay_data(
    const long long* rows, Py_ssize_t i, long long* entries, long long index, long long* state, long long* events,
    Py_ssize_t capacity
) noexcept nogil
cdef void replay_marker(
    const long long* rows, Py_ssize_t i, long long* entries, long long index, long long* state, long long* events,
    Py_ssize_t capacity, long long* aborts
) noexcept nogil
