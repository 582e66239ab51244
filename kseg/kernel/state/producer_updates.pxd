from kseg.kernel.state.producer_table cimport ProducerTable

cdef void replay_data(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil
cdef void replay_marker(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil
cdef bint shares_first_offset(const long long* entries, long long e) noexcept nogil
cdef void add_abort(
    ProducerTable table, long long e, long long stable, const long long* rows, Py_ssize_t at
) noexcept nogil
