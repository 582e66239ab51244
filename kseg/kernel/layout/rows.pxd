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

# Buffers of arguments, to be read or written.
ctypedef const unsigned char[::1] BytesIn
ctypedef unsigned char[::1] BytesOut
ctypedef const long long[::1] Int64sIn
ctypedef long long[::1] Int64sOut
ctypedef int[::1] Int32sOut

# Pointers to the first element of buffers, NULL for an empty one. Interpreted, rows.py returns the buffer itself.
# ValueError: a buffer has fewer than ``least`` elements.
cdef inline int check_length(Py_ssize_t length, Py_ssize_t least) except -1:
    if length < least:
        raise ValueError("a buffer is too short")
    return 0

# Interpreted, a copy that is faster to index and slice.
cdef inline const unsigned char* indexable(const unsigned char* p) noexcept nogil:
    return p

cdef inline const unsigned char* bytes_in(BytesIn buffer, Py_ssize_t least=0) except? NULL:
    check_length(buffer.shape[0], least)
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline unsigned char* bytes_out(BytesOut buffer, Py_ssize_t least=0) except? NULL:
    check_length(buffer.shape[0], least)
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline const long long* int64s_in(Int64sIn buffer, Py_ssize_t least=0) except? NULL:
    check_length(buffer.shape[0], least)
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline long long* int64s_out(Int64sOut buffer, Py_ssize_t least=0) except? NULL:
    check_length(buffer.shape[0], least)
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline int* int32s_out(Int32sOut buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline unsigned int* uint32s_out(unsigned int[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

# Columns of the int64 tables that kernel modules share. rows.py explains each column.
cdef enum:
    INT32_MAX = 0x7FFFFFFF

cdef enum:
    # Results of passes over frames, batches and rows. DONE: up to the end. FULL: use the output and call again.
    # NOT_PLAIN: the caller must process the next frame. IRREGULAR: no intact frame begins at the position.
    # NEEDS_BUFFER: extend the expansion buffer. MORE_ROWS: too few rows for a batch. MORE_HEADERS: too few header rows
    # for one record. TOO_SMALL: the empty output is too small. NEEDS_DECODING: the caller must finish the line of a
    # record. NEEDS_PACKING: the caller must compress a batch.
    DONE, FULL, NOT_PLAIN, IRREGULAR, NEEDS_BUFFER, MORE_ROWS, MORE_HEADERS, TOO_SMALL, NEEDS_DECODING, NEEDS_PACKING

cdef enum:
    FRAME_POSITION, FRAME_SIZE, FRAME_MAGIC, FRAME_STATE, FRAME_WIDTH

cdef enum:
    ROW_OFFSET, ROW_TIMESTAMP, ROW_SEQUENCE, ROW_KEY, ROW_KEY_SIZE, ROW_VALUE, ROW_VALUE_SIZE, ROW_HEADERS,
    ROW_HEADER_COUNT, ROW_CHECK, ROW_WIDTH

cdef enum:
    HEADER_KEY, HEADER_KEY_SIZE, HEADER_VALUE, HEADER_VALUE_SIZE, HEADER_WIDTH

cdef enum:
    BATCH_POSITION, BATCH_SIZE, BATCH_MAGIC, BATCH_STATE, BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_ATTRIBUTES,
    BATCH_LEADER_EPOCH, BATCH_BASE_TIMESTAMP, BATCH_MAX_TIMESTAMP, BATCH_PRODUCER_ID, BATCH_PRODUCER_EPOCH,
    BATCH_BASE_SEQUENCE, BATCH_COUNT, BATCH_MARKER, BATCH_COORDINATOR_EPOCH, BATCH_WIDTH

cdef enum:
    # Bits of FRAME_STATE and BATCH_STATE. RECORDS_RIGHT is set only by a walk over the records: none has a problem. A
    # frame without it must be opened to know. NULL_KEYS is set with it: a record has no key.
    CRC_RIGHT = 1
    RECORDS_RIGHT = 2
    NULL_KEYS = 4

    # Parts of ROW_CHECK: the bit that the CRC is right, and the timestamp type.
    CHECK_VALID_SHIFT = 32
    CHECK_KIND_SHIFT = 33
    CHECK_KIND_BITS = 3

# In C. Interpreted, rows.py defines the same functions.
cdef extern from "native.h" nogil:
    enum:
        # Parts of a result r of varint: r >> VARINT_VALUE_SHIFT is the value, r & VARINT_LENGTH_MASK the size.
        VARINT_VALUE_SHIFT "KSEG_VARINT_VALUE_SHIFT"
        VARINT_LENGTH_MASK "KSEG_VARINT_LENGTH_MASK"
    long long INT64_MAX
    int be16 "kseg_be16"(const unsigned char* p, Py_ssize_t i)
    long long be32 "kseg_be32"(const unsigned char* p, Py_ssize_t i)
    long long stored_crc "kseg_stored_crc"(const unsigned char* p, Py_ssize_t i)
    long long be64 "kseg_be64"(const unsigned char* p, Py_ssize_t i)
    long long varint "kseg_varint"(const unsigned char* p, Py_ssize_t i, Py_ssize_t end)
    long long difference "kseg_difference"(long long a, long long b)
    long long sum_of "kseg_sum"(long long a, long long b)
    long long varint_bytes "kseg_varint_bytes"(long long value)
    Py_ssize_t put_varint "kseg_put_varint"(unsigned char* out, Py_ssize_t at, long long value)
    Py_ssize_t put_big "kseg_put_big"(unsigned char* out, Py_ssize_t at, long long value, int size)
    Py_ssize_t put_bytes "kseg_put_bytes"(
        unsigned char* out, Py_ssize_t at, const unsigned char* p, long long start, long long size
    )
    bint are_same_bytes "kseg_are_same_bytes"(
        const unsigned char* p, long long at, long long size, const unsigned char* q, long long other_at,
        long long other_size
    )
    void prefetch "kseg_prefetch"(const long long* p, long long i)
    # Each module that computes checksums calls this once, when it is imported.
    void native_setup "kseg_native_setup"()
    unsigned int crc32c "kseg_crc32c"(unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end)
    unsigned int crc32 "kseg_crc32"(unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end)
    unsigned int crc32c_range "kseg_crc32c_range"(unsigned int before, unsigned int through, unsigned long long n)
    unsigned int crc32_range "kseg_crc32_range"(unsigned int before, unsigned int through, unsigned long long n)
    # For tests: one of the path_count implementations that this processor can run, by number.
    int path_count "kseg_path_count"
    const char* path_name "kseg_path_name"(int path)
    void use_path "kseg_use_path"(int path)
