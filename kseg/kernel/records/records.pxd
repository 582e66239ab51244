from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *


cpdef enum:
    # Results of reading records besides DONE and FULL: the reason why they are malformed.
    BAD_LENGTH = 2, TOO_LONG, BAD_TIMESTAMP, BAD_OFFSET, BAD_KEY, BAD_VALUE, BAD_HEADER_COUNT, BAD_HEADER_KEY,
    BAD_HEADER_VALUE, TOO_SHORT_FIELDS, BYTES_LEFT, NEGATIVE_COUNT, TOO_MANY_HEADERS

cdef int read_fields(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, RecordFields* fields) noexcept nogil
cdef Py_ssize_t read_headers(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long count, long long* headers, long long first,
    bint store
) noexcept nogil

cpdef enum:
    # Irregularities of well-formed records.
    FLAG_NOT_RISING = 1
    FLAG_OUT_OF_RANGE = 2
    FLAG_ATTRIBUTES = 4
    FLAG_NULL_KEY = 8

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

cdef long long content_bytes(const long long* rows, Py_ssize_t row) noexcept nogil
cdef long long header_bytes(const long long* headers, long long first, long long count) noexcept nogil
cpdef long long sequence_after(long long base, long long delta) noexcept nogil
cdef long long increment_sequence(long long sequence, long long delta) noexcept nogil
cdef void read_records_header(const unsigned char* p, Py_ssize_t at, RecordsHeader* header) noexcept nogil
cdef void begin_records(RecordCursor* cursor, Py_ssize_t position, long long largest_timestamp) noexcept nogil
cdef int append_records(
    const unsigned char* p, Py_ssize_t end, RecordCursor* cursor, const RecordsHeader* header, RecordTable* table
) noexcept nogil
cdef int walk_records(
    const unsigned char* p, Py_ssize_t end, RecordCursor* cursor, const RecordsHeader* header
) noexcept nogil

cdef class RecordWalk:
    cdef readonly long long index, flags, largest_timestamp
    cdef readonly Py_ssize_t position, row_count, header_count
    cdef RecordsHeader header
    cdef RecordCursor cursor
    cdef RecordTable table

cdef Py_ssize_t read_varlong(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, RecordFields* fields
) noexcept nogil
cdef long long fitting_size(const unsigned char* p, Py_ssize_t i, Py_ssize_t after) noexcept nogil
cdef void append_row(
    const RecordFields* fields, long long timestamp, const RecordsHeader* header, RecordTable* table
) noexcept nogil
