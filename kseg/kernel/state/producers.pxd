from kseg.kernel.state.producer_table cimport ProducerTable

cdef void follow_offsets(ProducerTable table, long long first, long long last) noexcept nogil
cdef Py_ssize_t pass_over(const long long* rows, Py_ssize_t i, Py_ssize_t count, ProducerTable table) noexcept nogil
cdef bint replay_as_broker(const long long* rows, Py_ssize_t i, ProducerTable table) noexcept nogil
cdef bint replay_one(const long long* rows, Py_ssize_t i, ProducerTable table) noexcept nogil
cdef Py_ssize_t replay_rows(
    const long long* rows, Py_ssize_t start, Py_ssize_t count, ProducerTable table
) noexcept nogil
