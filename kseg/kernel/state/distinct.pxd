cdef enum:
    COUNT = 0
    CAP = 1
    OVERFLOWED = 2
    TABLE_MASK = 3
    REGISTERS = 8
    TABLE = 16392
    REGISTER_BITS = 14
cdef unsigned long long mixed(unsigned long long h) noexcept nogil
cdef unsigned long long hash_of(const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil
cdef void add_hash(long long* distinct, unsigned long long h) noexcept nogil
cdef void check_distinct(long long[::1] distinct) except *
