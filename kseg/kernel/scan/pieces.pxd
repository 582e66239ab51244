from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cpdef enum:
    # What a block may be that begins as side files or directories do.
    MAY_BE_FILE = 1
    MAY_BE_DIRECTORY = 2

    # The numbers of `summarize`: a hash and sums, then the least, then the largest of all batches.
    PIECE_HASH = 0, PIECE_RECORDS, PIECE_GAPS, PIECE_FEWEST_RECORDS, PIECE_FIRST_TIME, PIECE_OLDEST_TIME,
    PIECE_LEAST_MAGIC, PIECE_LAST_TIME, PIECE_LARGEST_PRODUCER, PIECE_LARGEST_MARKER, PIECE_WIDTH

cdef class KeyIndex:
    cdef object _table
    cdef long long* table
    cdef long long mask
    cdef unsigned long long seed

cdef unsigned long long mixed(unsigned long long state, long long value) noexcept nogil
cdef unsigned long long key_of(KeyIndex index, BytesIn buffer, long long origin, Int64sIn rows, Py_ssize_t i) except? 0
cdef bint put(KeyIndex index, unsigned long long key, long long number, bint beside) noexcept nogil

cdef long long first_of(const long long* rows, Py_ssize_t row) noexcept nogil
cdef bint fits(const long long* rows, Py_ssize_t row, long long largest) noexcept nogil
cdef bint may_be_versions(const long long* a, Py_ssize_t i, const long long* b, Py_ssize_t k) noexcept nogil

cdef bint rises(const unsigned char* p, Py_ssize_t at, int width) noexcept nogil
cdef int mark_of(const unsigned char* p, Py_ssize_t at) noexcept nogil
