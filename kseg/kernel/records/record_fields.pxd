cpdef enum:
    # Results of reading records: COMPLETE, MORE (the rows are full: call again) or the reason why they are malformed.
    COMPLETE = 0
    MORE = 1
    BAD_LENGTH = 2
    TOO_LONG = 3
    BAD_TIMESTAMP = 4
    BAD_OFFSET = 5
    BAD_KEY = 6
    BAD_VALUE = 7
    BAD_HEADER_COUNT = 8
    BAD_HEADER_KEY = 9
    BAD_HEADER_VALUE = 10
    TOO_SHORT_FIELDS = 11
    BYTES_LEFT = 12
    NEGATIVE_COUNT = 13
    TOO_MANY_HEADERS = 14

# short_record.h, for records.py. It explains the fields.
cdef extern from "short_record.h" nogil:
    ctypedef struct RecordFields "struct kseg_record_fields":
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
    Py_ssize_t read_short_record "kseg_read_short_record"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t end, RecordFields* fields
    )

cdef int read_fields(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, RecordFields* fields) noexcept nogil
cdef Py_ssize_t read_headers(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long count, long long* headers, long long first,
    bint store
) noexcept nogil
