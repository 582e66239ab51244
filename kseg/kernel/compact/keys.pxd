from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport Secret
from kseg.kernel.records.cursor cimport FrameCursor

cpdef enum:
    # Verdict: skip the keys of the batch, which is aborted.
    SKIP = 1

cdef class KeyReader(FrameCursor):
    cdef readonly Secret secret
    cdef readonly long long least
    cdef public Py_ssize_t keys
    cdef const long long* verdicts

cdef void hash_rows(
    KeyReader reader, const unsigned char* payload, const long long* rows, long long count, long long[::1] hashes,
    long long[::1] offsets
) noexcept nogil
cdef bint has_no_keys(KeyReader reader) noexcept nogil
