from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport ExpansionBuffer, Packer
from kseg.kernel.records.cursor cimport FrameCursor

cdef class BatchSelection:
    cdef public long long next_offset
    cdef readonly long long size

cdef class Repacking(FrameCursor):
    cdef readonly ExpansionBuffer unpacked
    cdef readonly Packer packer
    cdef readonly long long largest
    cdef public Py_ssize_t size
    cdef unsigned char* out
    cdef Py_ssize_t capacity

cdef Py_ssize_t count_selected(
    BatchSelection selection, const unsigned char* p, const long long* frames, Py_ssize_t first, Py_ssize_t stop,
    int kept, long long max_bytes
) noexcept nogil
cdef int pack_frames(Repacking repacking) noexcept nogil
