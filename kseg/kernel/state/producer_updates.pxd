# What kseg.kernel.state.producers calls in producer_updates.py; the functions' bodies and their reasons stand there.
from kseg.kernel.state.producer_table cimport ProducerTable

cdef void replay_data(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil
cdef void replay_marker(const long long* rows, Py_ssize_t i, ProducerTable table, long long index) noexcept nogil
