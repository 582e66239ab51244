from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.scan.headers cimport EventLog

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


# The state of an index build, and the results of a call besides DONE.
cpdef enum:
    # A last offset is below the segment's base offset, or at least 2^31 above it.
    OUTSIDE = 1
    # The offset of an entry is not larger than the previous one; in the time index: smaller.
    NOT_RISING = 2

cdef class IndexBuild:
    cdef public long long base, interval
    cdef public bint uses_first_offset, has_times, takes_any
    cdef public long long last_position, last_offset, largest_timestamp, largest_timestamp_offset
    cdef public long long last_timestamp, last_time_offset
    cdef public Py_ssize_t offsets, times, row

# Kinds of indexes, and the events and state of a check of their entries.

cpdef enum:
    # The kinds of indexes; the number is the size of an entry in bytes.
    OFFSETS = 8
    TIMES = 12
    # Number of entries after the next one that must be in the window too, if the file has them.
    LOOK_AHEAD = 2

    # The offset is below the base offset of the segment.
    BELOW_BASE = 1
    # The position is negative.
    NEGATIVE = 2
    # The entry is not in order with its neighbours. C: offset of the last entry in order.
    UNSORTED = 3
    # The position is inside a batch. C: position of the next batch.
    NO_BATCH = 4
    # The first offset of the batch is larger than the entry's. C: that offset; for a compressed v0 or v1 message, the
    # offset before it.
    TOO_LOW = 5
    # The offset is neither the first nor the last offset of the batch; lookups still work. C: its last offset.
    IMPRECISE = 6
    # The log ends before the position or the offset. C: last offset of the log.
    BEYOND = 7
    # A record up to the offset has a later timestamp. C: the largest timestamp up to the offset.
    TOO_OLD = 8
    # All records up to the offset have earlier timestamps. C: the largest timestamp up to the offset.
    TOO_NEW = 9
    KINDS = 10

cdef class EntryWalk(EventLog):
    cdef readonly int width
    cdef readonly long long first, loaded
    cdef public long long base, total, next
    cdef public bint is_short, is_held, has_unseen, is_doubted, has_v2
    cdef public long long held_entry, held_offset, held_value, before_offset, before_value
    cdef public long long end, last_offset, largest, certain, pending, pending_entry, indexed, farthest, farthest_at
    cdef object _window
    cdef const unsigned char* data

cdef bint is_out_of_line(EntryWalk walk, long long offset, long long value) noexcept nogil
cdef void take(EntryWalk walk) noexcept nogil
cdef void judge_offset(const long long* row, Py_ssize_t at, EntryWalk walk) noexcept nogil
cdef void offsets_row(const long long* rows, Py_ssize_t at, bint believed, EntryWalk walk) noexcept nogil
cdef void times_row(const long long* rows, Py_ssize_t at, bint believed, EntryWalk walk) noexcept nogil

cdef long long offset_of(EntryWalk walk, long long entry) noexcept nogil
cdef long long value_of(EntryWalk walk, long long entry) noexcept nogil
cdef bint follows(
    int width, long long offset_before, long long value_before, long long offset, long long value
) noexcept nogil
cdef bint is_believed(const long long* rows, Py_ssize_t i, Py_ssize_t count, EntryWalk walk) noexcept nogil
cdef void report_held(EntryWalk walk, long long kind, long long c) noexcept nogil
