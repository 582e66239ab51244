from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# The state shared by the lines of the records of a batch.

# Texts of JSON lines about the file: the beginning of the objects of a batch and of a record, up to the position, and
# the text between the position and the offset of a record.
cdef struct Context:
    const unsigned char* batch
    const unsigned char* record
    const unsigned char* place
    Py_ssize_t batch_size
    Py_ssize_t record_size
    Py_ssize_t place_size

# Rows of records with positions in ``p``, and the output. A line begins only if ``margin`` bytes are left. Functions
# return OUTPUT_FULL once a position in ``out`` passes ``limit``. ``position``: of the batch in its file; ``kind``: its
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

include "kseg/kernel/render/lines.pxi"
