from kseg.kernel.codecs.expand cimport ExpansionBuffer
from kseg.kernel.codecs.packing cimport Packer

cpdef enum:
    # What `Repacking.repack` ends with: all frames are packed; the output is too short for ``needed`` bytes; the caller
    # has to pack the next batch.
    DONE = 0
    FULL = 1
    LEFT = 2

cdef enum:
    # Beside these: the expansion buffer must grow.
    NEEDS_BUFFER = 3

cdef class Selection:
    cdef public long long next_offset
    cdef readonly long long size

cdef class Repacking:
    cdef readonly ExpansionBuffer expansion
    cdef readonly Packer packer
    cdef readonly long long largest
    cdef public Py_ssize_t frame, size
    cdef readonly long long needed

cdef void check_frames(Py_ssize_t length, const long long[::1] frames, Py_ssize_t first, Py_ssize_t stop) except *
cdef bint check_records(
    const unsigned char* p, Py_ssize_t at, const unsigned char* records, Py_ssize_t start, Py_ssize_t end
) noexcept nogil
cdef Py_ssize_t count_selected(
    Selection selection, const unsigned char* p, const long long* frames, Py_ssize_t first, Py_ssize_t stop, int kept,
    long long most_bytes
) noexcept nogil
cdef void write_header(unsigned char* out, Py_ssize_t at, Py_ssize_t end, int codec) noexcept nogil
cdef int pack_frames(
    Repacking repacking, const unsigned char* p, const long long* frames, Py_ssize_t stop, unsigned char* out,
    Py_ssize_t capacity
) noexcept nogil
