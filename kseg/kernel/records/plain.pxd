from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.records cimport RecordCursor, RecordsHeader, RecordTable

cpdef enum:
    # Results of a pass over plain frames. FULL: use the output and call again. NOT_PLAIN: the caller must process the
    # next frame. TOO_SMALL: the empty output is too small. MORE_HEADERS: too few header rows for one record.
    # NEEDS_DECODING: the caller must finish the line of a record.
    DONE = 0
    FULL = 1
    NOT_PLAIN = 2
    TOO_SMALL = 3
    MORE_HEADERS = 4
    NEEDS_DECODING = 5

cdef class PassPosition:
    cdef public Py_ssize_t frame, position
    cdef public long long record, records, needed

# Frames (rows FRAME_* of ``p``), and the rows of their records, from ``first_row`` on those of the frame entered last.
# A v2 batch with one of the attributes ``refused`` is not plain.
cdef struct PlainFrames:
    const unsigned char* p
    const long long* frames
    int refused
    RecordsHeader header
    RecordCursor cursor
    RecordTable table
    Py_ssize_t first_row

cdef bint has_plain_header(const unsigned char* p, const long long* frames, Py_ssize_t at) noexcept nogil
cdef int is_legacy_plain(const unsigned char* p, Py_ssize_t position, Py_ssize_t size, int magic) noexcept nogil
cdef void legacy_row(
    const unsigned char* p, Py_ssize_t position, int magic, long long* rows, Py_ssize_t row
) noexcept nogil
cpdef long long sequence_after(long long base, long long delta) noexcept nogil
cdef int enter(PlainFrames* plain, Py_ssize_t at, PassPosition progress, Py_ssize_t left) noexcept nogil
cdef void leave(PlainFrames* plain, Py_ssize_t at, PassPosition progress, Py_ssize_t stop) noexcept nogil
cdef long long needed_bytes(const RecordTable* table, Py_ssize_t row, Py_ssize_t capacity) noexcept nogil
cdef int next_rows(PlainFrames* plain, Py_ssize_t at) noexcept nogil
cdef int open_frame(PlainFrames* plain, Py_ssize_t at) noexcept nogil
cdef int walk_rest(PlainFrames* plain, Py_ssize_t end) noexcept nogil
cdef long long behind_row(const unsigned char* p, RecordTable* table, Py_ssize_t row) noexcept nogil
cdef void check_frames(Py_ssize_t length, const long long[::1] frames, Py_ssize_t first, Py_ssize_t stop) except *
