# For the kernel's loops over records.
cdef void hash_key(
    const unsigned char* p, Py_ssize_t at, long long size, const long long* secret, long long* out, Py_ssize_t place
) noexcept nogil
