from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.compact.key_map cimport KeyHash, Secret
from kseg.kernel.records.cursor cimport FrameCursor

cdef enum:
    # The longest field whose replacement is a permutation: no two such fields get the same bytes.
    LONGEST_PERMUTED = 8
    ROUNDS = 4
    # Of the message that a round of the permutation hashes: its number, the size of the field, half of its bits.
    ROUND_SIZE = 1, ROUND_HALF, ROUND_BYTES = 6
    LETTERS = 26

cdef class Replacer(FrameCursor):
    cdef readonly Secret secret
    cdef readonly bint with_header_keys
    cdef readonly Py_ssize_t area_size, row_count
    cdef public long long replaced, keys, values, header_values

cdef void replace_field(
    const unsigned char* p, Py_ssize_t at, long long size, Secret secret, unsigned char* out
) noexcept nogil
cdef void replace_text(
    const unsigned char* p, Py_ssize_t at, long long size, Secret secret, unsigned char* out
) noexcept nogil
cdef unsigned long long permuted(unsigned long long value, int size, Secret secret) noexcept nogil
cdef void replace_rows(
    Replacer replacer, const unsigned char* p, const long long* rows, Py_ssize_t count, const long long* headers,
    unsigned char* out
) noexcept nogil
cdef void seal_frame(const long long* frames, Py_ssize_t k, unsigned char* out) noexcept nogil
