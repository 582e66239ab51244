from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport Expansion, ExpansionBuffer
from kseg.kernel.records.messages cimport Message
from kseg.kernel.records.records cimport RecordCursor, RecordsHeader, RecordTable

# The records of one batch: bytes ``first`` to ``end`` of ``payload``; ``walk``: the next record.
cdef struct Area:
    int source
    const unsigned char* payload
    Py_ssize_t first
    Py_ssize_t end
    RecordsHeader header
    RecordCursor walk

cdef class FrameCursor:
    cdef public Py_ssize_t frame
    cdef public long long record, records
    cdef readonly long long needed
    cdef readonly bint is_open, is_expanded
    # Frames (rows FRAME_* or BATCH_*, ``width`` columns each) of ``p`` up to ``stop``. A v2 batch with one of the
    # attributes ``refused`` is not plain. ``opened``: the records of the next v2 batch, if the size is not -1.
    cdef const unsigned char* p
    cdef const long long* frames
    cdef Py_ssize_t stop, width
    cdef int refused
    cdef const unsigned char* opened
    cdef Py_ssize_t opened_size
    cdef Expansion expansion
    cdef Area area
    cdef Message message
    # Rows from ``first_row`` on are not used yet. If ``is_expanded``, all refer to the first ``used`` bytes of the
    # expansion buffer.
    cdef RecordTable table
    cdef Py_ssize_t first_row, used

cdef int use_frames(
    FrameCursor cursor, const unsigned char[::1] buffer, const long long[::1] frames, Py_ssize_t stop, Py_ssize_t width,
    ExpansionBuffer expansion, const unsigned char[::1] opened
) except -1
cdef int extend(FrameCursor cursor, ExpansionBuffer expansion) except -1
cdef int use_rows(FrameCursor cursor, long long[::1] rows, long long[::1] headers) except -1
cdef void check_frames(
    Py_ssize_t length, const long long[::1] frames, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t width
) except *

include "kseg/kernel/records/cursor.pxi"
