from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport Expansion

# Prefix CRCs, which frames.py explains.
cdef enum:
    # Bytes for each entry of a table.
    BLOCK_BYTES = 256

cdef struct PrefixTable:
    # Of the bytes from the anchor to the start of each block.
    unsigned int* crcs
    # Number of valid entries.
    long long filled

cdef struct Prefixes:
    # Position of the first byte, -1: not in use.
    long long anchor
    # Bytes of frames whose CRC was computed without prefixes.
    long long direct_bytes
    PrefixTable castagnoli
    PrefixTable ieee

cdef bint crc_is_right(
    Prefixes* prefixes, const unsigned char* p, Py_ssize_t i, Py_ssize_t after, bint v07
) noexcept nogil
cdef unsigned int prefix_through(
    PrefixTable* table, bint castagnoli, const unsigned char* p, Py_ssize_t anchor, Py_ssize_t x
) noexcept nogil

# Options and state of a scan over the frames of a segment.

cpdef enum:
    # Options of a scan. WALK_RECORDS: check the records too. SKIP_CHECKSUMS: don't compute checksums. LONG_RUNS:
    # count compressed bytes twofold instead of eightfold. ONLY_USUAL: a search takes no batch of v2 with a producer id
    # of more bits, larger flags in the first byte of its attributes, or more records than offsets.
    WALK_RECORDS = 1
    SKIP_CHECKSUMS = 2
    LONG_RUNS = 4
    ONLY_USUAL = 8

cpdef enum:
    USUAL_PRODUCER_BITS = 48
    MOST_USUAL_FLAGS = 15

cdef class FrameScan:
    cdef readonly bint is_07
    cdef public int options
    cdef public Py_ssize_t position, count
    cdef public long long budget, last_offset, largest, largest_offset
    cdef Py_ssize_t resumed, unexpandable
    cdef Expansion expansion
    # The memory of the prefix tables.
    cdef object _castagnoli_crcs, _ieee_crcs
    cdef Py_ssize_t prefix_entries
    cdef Prefixes prefixes

cdef unsigned int crc_of(
    bint castagnoli, unsigned int crc, const unsigned char* p, Py_ssize_t start, Py_ssize_t end
) noexcept nogil

# Checks of headers without a valid checksum.
cpdef enum:
    # Bytes of an entry up to and including its magic. A rest of a file of at most this size has no header to judge.
    SHORT_TAIL_BYTES = 17

cdef long long claimed_bytes(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, bint v07, long long largest
) noexcept nogil
cdef bint goes_on(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long last_offset) noexcept nogil
cdef long long last_offset_at(const unsigned char* p, Py_ssize_t i, Py_ssize_t end) noexcept nogil
cdef long long compressed_end(
    const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long last_offset
) noexcept nogil
cpdef bint offset_continues(long long offset, long long last_offset) noexcept nogil
cdef bint message_sizes_fit(const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long size) noexcept nogil

cdef int walk_frame(FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size) noexcept nogil

cdef int scan_frames(
    FrameScan scan, const unsigned char* p, Py_ssize_t end, long long* rows, Py_ssize_t capacity
) noexcept nogil
cdef long long wrong_batch_bytes(FrameScan scan, const unsigned char* p, Py_ssize_t i, Py_ssize_t end) noexcept nogil
cdef bint is_usual(FrameScan scan, const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef Py_ssize_t find_frame(
    FrameScan scan, const unsigned char* p, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end
) noexcept nogil
cdef Py_ssize_t find_behind(
    FrameScan scan, const unsigned char* p, Py_ssize_t i, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end
) noexcept nogil

cdef bint is_frame(
    FrameScan scan, const unsigned char* p, Py_ssize_t i, long long size, Py_ssize_t wrong
) noexcept nogil

cpdef enum:
    # Results; `WindowedScan.follow` explains them.
    ENDED, PAUSED, NEEDS_CHECK, STUCK

cdef extern from "file_io.h" nogil:
    long long read_at "kseg_read_at"(int descriptor, unsigned char* out, long long size, long long position)

cdef class WindowedScan:
    cdef public long long origin, filled
    cdef public Py_ssize_t frame_count, header_count
    cdef FrameScan scan
    cdef int descriptor
    cdef long long base, end
    cdef bint has_more
    cdef unsigned char* window
    cdef long long window_bytes
    cdef long long* frames
    cdef Py_ssize_t frame_capacity
    cdef long long* headers
    cdef Py_ssize_t header_capacity

cdef long long read_window(WindowedScan windows) noexcept nogil
cdef long long follow_windows(WindowedScan windows, long long end_position) noexcept nogil
