# What laying batches open takes from it.
cdef bint is_outside(const unsigned char* p, const long long* frame, const long long* wanted) noexcept nogil
