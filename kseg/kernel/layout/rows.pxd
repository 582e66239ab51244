# What the kernel reaches in C: native.h. Interpreted, the same names come from native.py.
cdef extern from "native.h" nogil:
    # Rows: what one kernel module hands to the next, all int64 (see native.py for what each column means).
    enum:
        FRAME_WIDTH
        FRAME_POSITION
        FRAME_SIZE
        FRAME_MAGIC
        FRAME_STATE
        ROW_WIDTH
        ROW_OFFSET
        ROW_TIMESTAMP
        ROW_SEQUENCE
        ROW_KEY
        ROW_KEY_SIZE
        ROW_VALUE
        ROW_VALUE_SIZE
        ROW_HEADERS
        ROW_HEADER_COUNT
        ROW_CHECK
        FIELD_WIDTH
        FIELD_AFTER
        FIELD_ATTRIBUTES
        FIELD_TIMESTAMP_DELTA
        FIELD_OFFSET_DELTA
        FIELD_KEY
        FIELD_KEY_SIZE
        FIELD_VALUE
        FIELD_VALUE_SIZE
        FIELD_HEADERS
        FIELD_HEADER_COUNT
        HEADER_WIDTH
        HEADER_KEY
        HEADER_KEY_SIZE
        HEADER_VALUE
        HEADER_VALUE_SIZE
        BATCH_WIDTH
        BATCH_POSITION
        BATCH_SIZE
        BATCH_MAGIC
        BATCH_STATE
        BATCH_FIRST_OFFSET
        BATCH_LAST_OFFSET
        BATCH_ATTRIBUTES
        BATCH_LEADER_EPOCH
        BATCH_BASE_TIMESTAMP
        BATCH_MAX_TIMESTAMP
        BATCH_PRODUCER_ID
        BATCH_PRODUCER_EPOCH
        BATCH_BASE_SEQUENCE
        BATCH_COUNT
        BATCH_MARKER
        BATCH_COORDINATOR_EPOCH
    int be16 "kseg_be16"(const unsigned char* p, Py_ssize_t i)
    long long be32 "kseg_be32"(const unsigned char* p, Py_ssize_t i)
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
    void prefetch "kseg_prefetch"(const long long* p, long long i)
    # Once in each module that computes checksums, when it is imported.
    void native_setup "kseg_native_setup"()
    unsigned int crc32c "kseg_crc32c"(unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end)
    unsigned int crc32 "kseg_crc32"(unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end)
    unsigned int crc32c_range "kseg_crc32c_range"(unsigned int before, unsigned int through, unsigned long long n)
    unsigned int crc32_range "kseg_crc32_range"(unsigned int before, unsigned int through, unsigned long long n)
    # For tests: any of the path_count ways that this processor has, by number.
    int path_count "kseg_path_count"
    const char* path_name "kseg_path_name"(int path)
    unsigned int crc32c_by "kseg_crc32c_by"(int path, const unsigned char* p, Py_ssize_t n, unsigned int crc)
    unsigned int crc32_by "kseg_crc32_by"(int path, const unsigned char* p, Py_ssize_t n, unsigned int crc)
    unsigned int crc32c_range_by "kseg_crc32c_range_by"(
        int path, unsigned int before, unsigned int through, unsigned long long n
    )
    unsigned int crc32_range_by "kseg_crc32_range_by"(
        int path, unsigned int before, unsigned int through, unsigned long long n
    )
