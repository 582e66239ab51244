# Buffers of arguments, to be read or written.
ctypedef const unsigned char[::1] BytesIn
ctypedef unsigned char[::1] BytesOut
ctypedef const long long[::1] Int64sIn
ctypedef long long[::1] Int64sOut
ctypedef int[::1] Int32sOut

# Pointers to their elements.
ctypedef const unsigned char* Bytes
ctypedef unsigned char* OutBytes
ctypedef const long long* Columns
ctypedef long long* OutColumns

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

# In C. Interpreted, rows.py defines the same functions.
cdef extern from "native.h" nogil:
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

include "kseg/kernel/layout/rows.pxi"
