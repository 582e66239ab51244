from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport ExpansionBuffer, Packer

cdef Py_ssize_t expand_frames(
    const unsigned char* p, const long long* frames, Py_ssize_t count, const long long* wanted, unsigned char* out,
    Py_ssize_t capacity, void* zstd, long long* expanded
) noexcept nogil

cpdef enum:
    # Results of `Repacking.repack`. DONE: all frames are written. FULL: the output has less than ``needed`` free bytes.
    # NEEDS_REPACKING: the caller must compress the next batch itself.
    DONE = 0
    FULL = 1
    NEEDS_REPACKING = 2

cdef enum:
    # Internal: the expansion buffer must be extended.
    NEEDS_BUFFER = 3

cdef class BatchSelection:
    cdef public long long next_offset
    cdef readonly long long size

cdef class Repacking:
    cdef readonly ExpansionBuffer expansion
    cdef readonly Packer packer
    cdef readonly long long largest
    cdef public Py_ssize_t frame, size
    cdef readonly long long needed

cdef bint check_records(
    const unsigned char* p, Py_ssize_t at, const unsigned char* records, Py_ssize_t start, Py_ssize_t end
) noexcept nogil
cdef Py_ssize_t count_selected(
    BatchSelection selection, const unsigned char* p, const long long* frames, Py_ssize_t first, Py_ssize_t stop,
    int kept, long long max_bytes
) noexcept nogil
cdef void write_header(unsigned char* out, Py_ssize_t at, Py_ssize_t end, int codec) noexcept nogil
cdef int pack_frames(
    Repacking repacking, const unsigned char* p, const long long* frames, Py_ssize_t stop, unsigned char* out,
    Py_ssize_t capacity
) noexcept nogil

cdef class UniformRun:
    cdef public long long next_offset
    cdef readonly long long kind, time, timed

cdef bint is_plain_batch(const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept nogil
cdef Py_ssize_t count_alike(
    UniformRun run, const unsigned char* p, const long long* frames, Py_ssize_t first, Py_ssize_t stop
) noexcept nogil

cdef bint can_recode(const unsigned char* p, Py_ssize_t at, long long size, int kept) noexcept nogil
