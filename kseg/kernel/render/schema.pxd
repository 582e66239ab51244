from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# The layout of programs, which schema.py describes.

cpdef enum:
    COUNT, MIXED, KNOWN, STRUCT_HEAD
    KIND = 0, FLAGS, NAME, NAME_SIZE, TAG, DEFAULT, STRUCT, WEIGHT, FIELD_WIDTH
    I8 = 1, I16, U16, I32, I64, BOOL, UUID, STR, BYTES, NESTED, SWITCH, PROTOCOL
    IS_ARRAY = 1
    IS_NULLABLE = 2
    IS_DEFAULT_NULL = 4
    TAGS = 16
    PADDING = 32
    OUTPUT_FULL = -1
    UNREADABLE = -3

# The state of a decoding: input ``p`` from ``at`` to ``end``, program ``code`` and ``names``, output ``out``. Functions
# return OUTPUT_FULL if a position in ``out`` exceeds ``limit``; at least 512 bytes must follow it. ``items``: number of
# array elements so far. ``is_switched``: whether the last SWITCH had the text that it is compared with. ``as_jackson``:
# write texts as Jackson does, which differs in some control characters. ``is_control``: the record is of a control
# batch.
cdef struct Job:
    const long long* code
    const unsigned char* names
    const unsigned char* p
    unsigned char* out
    Py_ssize_t limit
    Py_ssize_t at
    Py_ssize_t end
    long long items
    bint is_flexible
    bint is_switched
    bint as_jackson
    bint is_control

cdef Py_ssize_t put_name(Job* job, Py_ssize_t o, long long position, long long size) noexcept nogil
cdef long long uvarint(Job* job) noexcept nogil
cdef Py_ssize_t put_struct(Job* job, Py_ssize_t struct, Py_ssize_t o) noexcept nogil
cdef long long read_length(Job* job, bint is_text) noexcept nogil
cdef long long read_number(Job* job, long long kind) noexcept nogil
cdef Py_ssize_t put_string(Job* job, Py_ssize_t size, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_binary(Job* job, Py_ssize_t size, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_uuid(Job* job, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_protocol(Job* job, Py_ssize_t versions, Py_ssize_t size, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_sized(Job* job, Py_ssize_t field, bint may_be_null, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_value(Job* job, Py_ssize_t field, bint may_be_null, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_field(Job* job, Py_ssize_t field, Py_ssize_t o) noexcept nogil
cdef bint is_default(Job* job, Py_ssize_t field) noexcept nogil
cdef bint is_default_struct(Job* job, Py_ssize_t field, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cdef bint read_tags(Job* job, Py_ssize_t struct, long long count, long long* places) noexcept nogil
cdef Py_ssize_t put_tagged(
    Job* job, Py_ssize_t struct, long long count, Py_ssize_t start, Py_ssize_t begun, Py_ssize_t o
) noexcept nogil

cpdef enum:
    # Indexes of the head of a program's code: the framing, the numbers of record types and versions, then tables with
    # the index of the description of each message, or 0: of a key for each type, of a value for each type and version.
    FRAMING, TYPES, VERSIONS, TABLES

    # Values of FRAMING.
    COORDINATOR = 1
    FRAMED = 2

    # Columns of the description of a message: the text before its fields, its struct, whether it is flexible.
    MESSAGE_LEAD = 0, MESSAGE_LEAD_SIZE, MESSAGE_STRUCT, MESSAGE_FLEXIBLE

    # Types of control records that end a transaction.
    ABORT = 0
    COMMIT = 1

cdef Py_ssize_t put_decoded(Job* job, const long long* rows, Py_ssize_t row, bint is_bare, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_message(Job* job, Py_ssize_t place, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_version(Job* job, long long record_type, long long version, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_marker(Job* job, const long long* rows, Py_ssize_t row, bint is_bare, Py_ssize_t o) noexcept nogil

cdef Py_ssize_t width_of(long long kind) noexcept nogil
cdef Py_ssize_t put_lead(Job* job, Py_ssize_t o, bint is_value, bint is_bare) noexcept nogil
