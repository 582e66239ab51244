# The base class of the state of passes over rows, and the function that logs an event.
cpdef enum:
    EVENT_WIDTH = 5

cdef class EventLog:
    cdef public long long limit
    cdef public Py_ssize_t events
    cdef object _buffer
    cdef long long[::1] _rows
    cdef long long[::1] _totals
    cdef long long[::1] _last_about

cdef void report(EventLog log, long long kind, long long about, long long a, long long b, long long c) noexcept nogil
