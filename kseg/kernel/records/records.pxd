from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# The fields of a record: ``after``: the position after it. A negative size of a key or value means null. ``headers``:
# position of the first header.
cdef struct RecordFields:
    long long after
    long long attributes
    long long timestamp_delta
    long long offset_delta
    long long key
    long long key_size
    long long value
    long long value_size
    long long headers
    long long header_count

# Fields of a v2 batch header that a walk over its records needs. Times in ms.
cdef struct RecordsHeader:
    long long count
    long long base_offset
    long long base_timestamp
    long long max_timestamp
    long long base_sequence
    long long last_offset_delta
    bint is_append_time

# State of a walk: the next record ``index`` and its ``position``; of the records before, FLAG_*, the last offset delta
# and the largest timestamp.
cdef struct RecordCursor:
    long long index
    Py_ssize_t position
    long long flags
    long long last_delta
    long long largest_timestamp

# Output of a walk: rows of records and of headers, of which ``row_count`` and ``header_count`` are used. A negative
# ``header_capacity``: no header rows; HEADER_COUNT of a row is -1, HEADERS and CHECK are start and end of the headers.
cdef struct RecordTable:
    long long* rows
    Py_ssize_t row_capacity
    Py_ssize_t row_count
    long long* headers
    Py_ssize_t header_capacity
    Py_ssize_t header_count

cpdef long long sequence_after(long long base, long long delta) noexcept nogil

cdef class RecordWalk:
    cdef readonly long long index, flags, largest_timestamp
    cdef readonly Py_ssize_t position, row_count, header_count
    cdef RecordsHeader header
    cdef RecordCursor cursor
    cdef RecordTable table

include "kseg/kernel/records/records.pxi"
