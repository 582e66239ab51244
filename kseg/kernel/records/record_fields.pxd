cpdef enum:
    # What reading records ends with: COMPLETE, MORE (the rows are full: call again) or why they make no sense.
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

cdef int read_fields(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long* fields) noexcept nogil
cdef Py_ssize_t read_headers(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long count,
    long long* headers, long long first, bint store
) noexcept nogil
