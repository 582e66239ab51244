from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor

cpdef enum:
    COUNT, CAP, OVERFLOWED, TABLE_MASK
    REGISTERS = 8
    TABLE = 16392
    REGISTER_BITS = 14
cdef unsigned long long mixed(unsigned long long h) noexcept nogil
cdef unsigned long long hash_of(const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
cdef void add_hash(long long* distinct, unsigned long long h) noexcept nogil
cdef long long* distinct_out(long long[::1] distinct) except NULL

# Columns of a tally; tally.py explains them.

cpdef enum:
    BATCHES, RECORDS, CONTROL_RECORDS, NULL_KEY_RECORDS, NULL_VALUES, TOMBSTONES, WITH_HEADERS, HEADERS, WITH_TIMESTAMP,
    LEAST_TIMESTAMP, LARGEST_TIMESTAMP, HAS_OFFSET, FIRST_OFFSET, LAST_OFFSET, GAPS, MISSING_OFFSETS, STEPS_BACK,
    TRANSACTIONAL_BATCHES, CONTROL_BATCHES, HEADER_ONLY, WITH_PRODUCER, APPEND_TIME_BATCHES, WITH_DELETE_HORIZON,
    ABORTS, COMMITS, OTHER_CONTROL, EMPTY_KEYS, EMPTY_VALUES, HEADER_BYTES, WITH_BASE_TIMESTAMP, LEAST_BASE_TIMESTAMP,
    OTHER_HEADERS, OTHER_HEADER_BYTES, HEADER_KEYS_HELD
    # Formats v0, v1, v2 and 0.7. A count of forms has batches and bytes for each codec of each format.
    FORMATS = 4
    CODECS = 8
    FORMS_WIDTH = 64
    FORM_ROW = 40
    FORM_WIDTH = 5
    FORM_BATCHES = 0, FORM_RECORDS, FORM_BYTES, FORM_PACKED, FORM_UNPACKED
    BATCH_SIZES = 0, RECORD_COUNTS, KEY_SIZES, VALUE_SIZES
    SIZE_COUNT = 0, SIZE_SUM, SIZE_LEAST, SIZE_LARGEST, SIZE_BUCKETS
    SIZE_WIDTH = 2048
    LARGEST_SHOWN = 5
    LARGEST_WIDTH = 2
    LARGEST_SIZE = 0
    LARGEST_OFFSET = 1
    NAME_HASH = 0, NAME_COUNT, NAME_BYTES, NAME_SIZE, NAME_WORDS
    NAME_WIDTH = 12
    NAME_SLOTS = 2048
    NAME_CAP = 1024
    NAME_SHOWN = 64
    FORMS = 40
    SIZES = 200
    LARGEST_KEYS = 8392
    LARGEST_RECORDS = 8402
    NAMES = 8412
    TALLY_WIDTH = 32988

cdef void count_size(long long* tally, Py_ssize_t which, long long size) noexcept nogil
cdef void put_largest(long long* tally, Py_ssize_t at, long long size, long long offset) noexcept nogil
cdef void count_record(
    const unsigned char* p, long long* tally, long long* keys, Py_ssize_t key, long long key_size,
    long long value_size, long long header_bytes, long long offset
) noexcept nogil
cdef bint is_name(
    const unsigned char* p, Py_ssize_t key, long long size, const long long* tally, Py_ssize_t at
) noexcept nogil
cdef void count_name(
    const unsigned char* p, Py_ssize_t key, long long size, long long total, long long* tally
) noexcept nogil
cdef long long count_headers(
    const unsigned char* p, const long long* headers, Py_ssize_t first, long long count, long long* tally
) noexcept nogil
cdef void count_rows(
    const unsigned char* p, const long long* rows, const long long* headers, long long count, long long* tally,
    long long* keys, bint is_control, bint has_offsets
) noexcept nogil
cdef void count_batch(
    const unsigned char* p, Py_ssize_t at, long long size, int magic, long long* tally, long long* producers
) noexcept nogil
cdef void count_area(long long* tally, Py_ssize_t form, long long records, long long size) noexcept nogil
cdef int count_frame(
    FrameCursor cursor, bint v07, long long* tally, long long* producers, long long* keys
) noexcept nogil

cdef void count_offset(long long* tally, long long offset) noexcept nogil
cdef long long word_at(const unsigned char* p, Py_ssize_t i, long long left) noexcept nogil
cdef void count_timestamp(long long* tally, Py_ssize_t count, long long timestamp) noexcept nogil
