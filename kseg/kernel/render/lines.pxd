# What the lines of one batch's records have in common.
from kseg.kernel.native.escape cimport Counters

cpdef enum:
    # What is printed. DEEP: the records of each batch; CONTENTS: their keys and values, in JSON those of headers too;
    # LINE_ONLY: the line of a batch, whatever the frame holds.
    DEEP = 1
    CONTENTS = 2
    LINE_ONLY = 16
    # In text. SKIP_METADATA: nothing but keys and values; ESCAPE: control characters as \n, \r, \t or \xNN.
    SKIP_METADATA = 4
    ESCAPE = 8
    # In JSON: the object form, whatever the bytes are.
    BASE64_KEYS = 32
    BASE64_VALUES = 64

# What JSON lines say of the file, ready to print: the beginning of a batch's object and of a record's, both up to the
# position, and what follows a record's position up to its offset.
cdef struct Context:
    const unsigned char* batch
    const unsigned char* record
    const unsigned char* place
    Py_ssize_t batch_size
    Py_ssize_t record_size
    Py_ssize_t place_size

# Records, as rows of what lies in ``p``, and the output. A line is begun only where there are ``margin`` bytes left; a
# position in ``out`` that passes ``limit`` is OUTPUT_FULL. ``position`` is that of the batch in its file, ``kind`` its
# timestamp type.
cdef struct Line:
    unsigned char* out
    Py_ssize_t capacity
    Py_ssize_t margin
    Py_ssize_t limit
    const unsigned char* p
    const long long* rows
    const long long* headers
    bint is_json
    int magic
    int kind
    int flags
    long long position
    Context context
    Counters counters
