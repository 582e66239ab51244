from kseg.kernel.render.schema cimport Job

cpdef enum:
    # Indexes of the head of a program's code: the framing, the numbers of record types and versions, then tables with
    # the index of the description of each message, or 0: of a key for each type, of a value for each type and version.
    FRAMING = 0
    TYPES = 1
    VERSIONS = 2
    TABLES = 3

    # Values of FRAMING.
    COORDINATOR = 1
    FRAMED = 2

    # Columns of the description of a message: the text before its fields, its struct, whether it is flexible.
    MESSAGE_LEAD = 0
    MESSAGE_LEAD_SIZE = 1
    MESSAGE_STRUCT = 2
    MESSAGE_FLEXIBLE = 3

    # Types of control records that end a transaction.
    ABORT = 0
    COMMIT = 1

cdef Py_ssize_t put_decoded(Job* job, const long long* rows, Py_ssize_t row, bint is_bare, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_message(Job* job, Py_ssize_t place, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_prefixed(Job* job, long long record_type, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_framed(Job* job, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_marker(Job* job, const long long* rows, Py_ssize_t row, bint is_bare, Py_ssize_t o) noexcept nogil
