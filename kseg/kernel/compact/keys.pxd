from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport Secret
from kseg.kernel.records.opening cimport BatchWindow

cpdef enum:
    # Verdict: skip the keys of the batch, which is aborted.
    SKIP = 1

cdef class KeyReader:
    cdef readonly Secret secret
    cdef readonly long long least
    cdef public Py_ssize_t batch, keys
    cdef readonly long long needed
    cdef readonly int reason

cdef void hash_rows(
    KeyReader reader, const unsigned char* payload, const long long* rows, long long count, long long[::1] hashes,
    long long[::1] offsets
) noexcept nogil
cdef int hash_window(
    KeyReader reader, BatchWindow* window, long long[::1] hashes, long long[::1] offsets
) noexcept nogil

cdef int hash_message(
    KeyReader reader, BatchWindow* window, Py_ssize_t i, Py_ssize_t capacity, long long[::1] hashes,
    long long[::1] offsets
) noexcept nogil
cdef int hash_batch(
    KeyReader reader, BatchWindow* window, Py_ssize_t i, Py_ssize_t capacity, long long[::1] hashes,
    long long[::1] offsets
) noexcept nogil
