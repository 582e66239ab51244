# Pointers to the first element of buffers, NULL for an empty one. Interpreted, pointers.py returns the buffer itself.
cdef inline const unsigned char* bytes_in(const unsigned char[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline unsigned char* bytes_out(unsigned char[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline const long long* int64s_in(const long long[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline long long* int64s_out(long long[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline int* int32s_out(int[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL

cdef inline unsigned int* uint32s_out(unsigned int[::1] buffer) noexcept:
    return &buffer[0] if buffer.shape[0] else NULL
