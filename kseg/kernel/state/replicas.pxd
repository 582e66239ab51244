from kseg.kernel.layout.rows cimport *

# Events and state of a comparison of the records of two replicas.
cpdef enum:
    # KIND of an event.
    DIFFERENT = 4, ONLY_A, ONLY_B

cpdef enum:
    # Columns of an event: first and last offset of a range without equal records, their number, the differing fields.
    EVENT_KIND, EVENT_FIRST, EVENT_LAST, EVENT_COUNT, EVENT_FIELDS, EVENT_WIDTH

cpdef enum:
    # Bits of the fields that differ, in the order of FIELD_NAMES.
    EPOCH = 1
    KEY = 2
    VALUE = 4
    TIMESTAMP = 8
    HEADERS = 16

cdef class Side:
    cdef const unsigned char* payload
    cdef const long long* rows
    cdef const long long* headers
    cdef readonly Py_ssize_t count, next
    cdef object _kept

cdef class RecordComparison:
    cdef public bint epochs_differ, is_open
    cdef public long long same, different, last_same
    cdef readonly Py_ssize_t events
    cdef object _buffer
    cdef long long* rows
    cdef Py_ssize_t capacity

cdef long long differing_fields(Side a, Py_ssize_t i, Side b, Py_ssize_t j) noexcept nogil
cdef bint report(
    RecordComparison found, bint goes_on, long long kind, long long offset, long long fields
) noexcept nogil

cdef bint is_same_field(
    Side a, const long long* a_rows, Py_ssize_t i, Side b, const long long* b_rows, Py_ssize_t j
) noexcept nogil
