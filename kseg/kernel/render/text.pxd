from kseg.kernel.render.lines cimport Line

cdef Py_ssize_t put_metadata(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_contents(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
