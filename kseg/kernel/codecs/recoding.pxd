# Batches of which only the codec changes, and checks that others take from there.
from kseg.kernel.codecs.expand cimport Room
from kseg.kernel.codecs.packing cimport Packer

cpdef enum:
    # What `Repacking.repack` ends with: all frames are packed; the output is too short for ``needed`` bytes; the caller
    # has to pack the next batch.
    DONE = 0
    FULL = 1
    LEFT = 2

cdef enum:
    # Beside these: records need a larger room.
    MORE_ROOM = 3

cdef class Selection:
    cdef public long long next_offset
    cdef readonly long long size

cdef class Repacking:
    cdef readonly Room room
    cdef readonly Packer packer
    cdef readonly long long largest
    cdef public Py_ssize_t frame, size
    cdef readonly long long needed

cdef check_frames(Py_ssize_t length, const long long[::1] frames, Py_ssize_t first, Py_ssize_t stop)
cdef bint check_records(
    const unsigned char* p, Py_ssize_t at, const unsigned char* records, Py_ssize_t start, Py_ssize_t end
) noexcept nogil
