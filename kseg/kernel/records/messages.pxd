cpdef enum:
    # What a walk ends with: nothing is left; the rows are full, call again; the entry at the position is a wrapper,
    # open it and go on behind it; that entry is cut off by the end; or a key of REASONS.
    END = 0
    MORE = 1
    COMPRESSED = 2
    CUT = 3
    TOO_SMALL = 4
    MISFIT = 5
    UNKNOWN_MAGIC = 6

    # How v0 and v1 are read.
    STRICT = 0
    AS_DUMPED = 1
    SIZES_ONLY = 2

    # Instead of a timestamp type: each message has its own.
    OWN = -1

# Where fields of an entry lie, and its sizes as they are written.
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
    cdef bint checks_crc

cdef int walk_set(
    MessageWalk walk, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity
) noexcept nogil
cdef int walk_v07(
    MessageWalk walk, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity
) noexcept nogil
