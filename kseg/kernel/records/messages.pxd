from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cpdef enum:
    # Results of a walk besides DONE and FULL. COMPRESSED: the entry at the position is a wrapper, to be opened and
    # skipped by the caller. CUT: the end truncates that entry. Others are keys of REASONS.
    COMPRESSED = 2, CUT, TOO_SHORT, MISFIT, UNKNOWN_MAGIC

    # Modes of reading v0 and v1.
    STRICT = 0, AS_DUMPED, SIZES_ONLY

    # In place of a timestamp type: each message has its own.
    OWN = -1

# Positions of the fields of an entry, and its stored sizes.
cdef struct Message:
    Py_ssize_t after
    int magic
    Py_ssize_t key
    long long key_size
    Py_ssize_t value
    long long value_size

cdef class MessageWalk:
    cdef public Py_ssize_t position, row_count
    cdef public long long count, last_offset, misfits, base
    cdef long long timestamp
    cdef int kind, mode

cdef long long row_check(long long crc, long long is_right, long long kind) noexcept nogil
cdef bint is_plain(const unsigned char* p, Py_ssize_t at, Py_ssize_t size, int magic, Message* message) noexcept nogil
cdef void put_row(
    const Message* message, long long offset, long long timestamp, long long check, long long* rows, Py_ssize_t number
) noexcept nogil
cdef long long kind_in(long long check) noexcept nogil
cdef long long time_of(const unsigned char* p, Py_ssize_t at, int magic) noexcept nogil
cdef int kind_of(const unsigned char* p, Py_ssize_t at, int magic) noexcept nogil
cdef int walk_set(
    MessageWalk walk, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity, bint is_07
) noexcept nogil
cdef int read_frame(
    MessageWalk walk, const unsigned char* p, Py_ssize_t end, bint is_07, Message* message
) noexcept nogil
cdef bint read_sizes(const unsigned char* p, Py_ssize_t at, Message* message) noexcept nogil
cdef int read_fields(MessageWalk walk, const unsigned char* p, bint is_07, Message* message) noexcept nogil
