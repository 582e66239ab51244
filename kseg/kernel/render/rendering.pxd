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

include "kseg/kernel/render/rendering.pxi"
