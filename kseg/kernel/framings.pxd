# For the renderer of decoded records.
from kseg.kernel.schema cimport Job

cdef Py_ssize_t put_contents(Job* job, const long long* row, bint is_bare, Py_ssize_t o) noexcept nogil
