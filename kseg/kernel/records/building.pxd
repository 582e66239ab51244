from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

cdef Py_ssize_t put_records(
    const unsigned char* p, const long long* rows, const unsigned char* keep, long long count, long long base_offset,
    long long base_timestamp, unsigned char* out, Py_ssize_t o
) noexcept nogil
cdef void put_header(
    unsigned char* out, Py_ssize_t at, Py_ssize_t end, const unsigned char* p, Py_ssize_t model, long long attributes,
    long long base_timestamp, long long max_timestamp, long long count
) noexcept nogil
cdef void put_single_header(
    unsigned char* out, Py_ssize_t at, Py_ssize_t end, long long offset, long long attributes, long long base_timestamp,
    long long max_timestamp
) noexcept nogil
cdef long long record_size(
    const long long* rows, Py_ssize_t row, const long long* headers, long long time_delta, long long offset_delta
) noexcept nogil
cdef Py_ssize_t put_record(
    unsigned char* out, Py_ssize_t o, const unsigned char* p, const long long* rows, Py_ssize_t row,
    const long long* headers, long long time_delta, long long offset_delta, long long size
) noexcept nogil

cdef class Area:
    cdef public long long base_offset, base_timestamp, last_offset, largest_timestamp, limit, needed, count
    cdef public bint is_base_given, is_relative
    cdef public int magic, attributes
    cdef readonly Py_ssize_t end, capacity
    cdef unsigned char* out
    cdef unsigned char[::1] _buffer

cdef void begin_area(Area area, Py_ssize_t end, long long base_offset) noexcept nogil
cdef Py_ssize_t write_rows(
    Area area, const unsigned char* p, const long long* rows, const long long* headers, Py_ssize_t first,
    Py_ssize_t stop
) noexcept nogil
cdef Py_ssize_t put_message(
    Area area, const unsigned char* p, const long long* rows, Py_ssize_t row, long long offset, long long size
) noexcept nogil
