from kseg.kernel.records.building cimport AreaWriter

cdef Py_ssize_t write_batches(
    AreaWriter area, const unsigned char* p, const long long* rows, const long long* headers, Py_ssize_t count,
    int attributes
) noexcept nogil
