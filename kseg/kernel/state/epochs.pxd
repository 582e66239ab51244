# Columns of a change of the leader epoch, and the state of the previous batch.
cpdef enum:
    # -1: a message of v0 or v1, which has none.
    CHANGE_EPOCH = 0
    # Offset of its first batch.
    CHANGE_OFFSET = 1
    # Last offset of the epoch before that, -1 none.
    CHANGE_LAST_OFFSET = 2
    CHANGE_WIDTH = 3

cdef class EpochState:
    cdef public long long epoch, last_offset
    cdef public Py_ssize_t found

cdef Py_ssize_t find_changes(
    const long long* rows, Py_ssize_t start, Py_ssize_t count, EpochState state, long long* changes, Py_ssize_t capacity
) noexcept nogil
