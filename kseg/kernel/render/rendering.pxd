from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.records.cursor cimport FrameCursor
from kseg.kernel.render.lines cimport Line
from kseg.kernel.render.schema cimport Job

cdef class Renderer(FrameCursor):
    cdef public Py_ssize_t written, row
    cdef public long long batches, origin
    cdef public int flags
    cdef public bint is_control
    cdef Py_ssize_t length
    cdef Line line
    cdef Job job
    cdef bint decodes, is_begun
    cdef object _context, _program

cdef int full(Renderer renderer, Py_ssize_t row) noexcept nogil
cdef bint has_plain_header(Renderer renderer) noexcept nogil
cdef Py_ssize_t put_batch(Renderer renderer, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t write_rows(Renderer renderer, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
cdef int open_rows(Renderer renderer) noexcept nogil
cdef int write_batches(Renderer renderer) noexcept nogil
