from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.plain cimport PassPosition, PlainFrames
from kseg.kernel.render.lines cimport Line
from kseg.kernel.render.schema cimport Job

cdef class Renderer(PassPosition):
    cdef public Py_ssize_t written, row
    cdef public long long batches, origin
    cdef public int flags
    cdef public bint is_control
    cdef const unsigned char* p
    cdef Py_ssize_t length
    cdef const long long* frames
    cdef Line line
    cdef PlainFrames plain
    cdef Job job
    cdef bint decodes
    cdef object _context, _program

cdef int full(Renderer renderer, Py_ssize_t row) noexcept nogil
cdef Py_ssize_t put_batch(Renderer renderer, Py_ssize_t at) noexcept nogil
cdef void begin_lines(Renderer renderer, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t write_rows(Renderer renderer, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
cdef int open_rows(Renderer renderer, Py_ssize_t at) noexcept nogil
cdef int write_batches(Renderer renderer, Py_ssize_t stop) noexcept nogil

cdef Py_ssize_t put_end(Line* line, Py_ssize_t o) noexcept nogil
