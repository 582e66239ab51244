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

# In C, besides the functions that rows.py declares.
cdef extern from "native.h" nogil:
    long long INT64_MAX
    # For tests: one of the path_count implementations that this processor can run, by number.
    int path_count "kseg_path_count"
    const char* path_name "kseg_path_name"(int path)

include "kseg/kernel/layout/rows.pxi"
