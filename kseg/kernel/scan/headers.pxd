from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef long long frame_bytes(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, bint v07) noexcept nogil
cdef bint could_be_frame(const unsigned char* p, Py_ssize_t i, long long size, bint v07) noexcept nogil
cdef void read_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, bint v07, long long origin, long long* out,
    Py_ssize_t row
) noexcept nogil
cdef void read_marker(
    const unsigned char* p, Py_ssize_t at, long long size, long long* out, Py_ssize_t row
) noexcept nogil

# The base class of the state of passes over rows, and the function that logs an event.
cpdef enum:
    EVENT_WIDTH = 5

cdef class EventLog:
    cdef public long long limit
    cdef public Py_ssize_t events
    cdef object _buffer
    cdef long long[::1] _rows
    cdef readonly long long[::1] totals, last_about

cdef void report(EventLog log, long long kind, long long about, long long a, long long b, long long c) noexcept nogil

# The kinds of events of a check of batches, and its state.

cpdef enum:
    # The checksum or the magic is wrong. A: last trusted offset before it, or -1.
    INVALID = 1
    # A: the offset expected, B: the first one found, C: 1 if the bytes before the batch are damaged.
    GAP = 2
    # A: last offset before, B: offset of the batch.
    NOT_RISING = 3
    # Only the base offset is wrong: the next batch continues the expected offsets. A: expected, B: found. For a
    # compressed v0 or v1 message, B is the last offset, and A the expected last offset or, if C is 1, its minimum.
    WRONG_OFFSET = 4
    # A: an offset outside the range of the segment.
    OUTSIDE = 5
    # A: attributes with bits that no release sets.
    ATTRIBUTES = 6
    # A: records counted, B: offsets of the batch.
    COUNT = 7
    # A: leader epoch before, B: that of the batch.
    EPOCH_FALLS = 8
    # A: a timestamp later than ``latest_ms``.
    LATE = 9
    KINDS = 10

cdef class Chain(EventLog):
    cdef public long long base, latest_ms, last_offset, last_epoch, first_offset, misplaced, missing
    cdef public long long largest_timestamp, largest_timestamp_offset, least_timestamp
    cdef public long long batches, records, v0, v1, v2
    cdef public long long transactional, control, with_producer, compressed, with_horizon, sparse
    cdef public bint is_after_damage

cdef bint is_astray(const long long* rows, Py_ssize_t i, Py_ssize_t count, long long before) noexcept nogil
cdef void follow_offsets(const long long* rows, Py_ssize_t i, Py_ssize_t count, Chain chain) noexcept nogil
cdef bint is_believable(const long long* rows, Py_ssize_t i, Py_ssize_t count, long long expected) noexcept nogil

cdef void count_batch(const long long* row, Py_ssize_t at, Chain chain) noexcept nogil
cdef void least(Chain chain, long long timestamp) noexcept nogil
cdef bint next_begins_at(const long long* rows, Py_ssize_t i, Py_ssize_t count, long long after) noexcept nogil
cdef long long least_offset(const long long* rows, Py_ssize_t i, Py_ssize_t count) noexcept nogil
cdef long long span_of(const long long* rows, Py_ssize_t i) noexcept nogil
cdef long long expected_offset(Chain chain) noexcept nogil
