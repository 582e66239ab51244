from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

# The state shared by the lines of the records of a batch.

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

cdef Py_ssize_t put_fields(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_headers(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_metadata(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_contents(Line* line, Py_ssize_t row, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_bool(unsigned char* out, Py_ssize_t o, bint value) noexcept nogil
cdef Py_ssize_t put_text_kind(unsigned char* out, Py_ssize_t o, int kind) noexcept nogil
cdef Py_ssize_t put_json_kind(unsigned char* out, Py_ssize_t o, int kind) noexcept nogil
cdef Py_ssize_t put_text_batch(
    Line* line, Py_ssize_t o, const unsigned char* p, Py_ssize_t at, const long long* frames, Py_ssize_t frame,
    long long origin
) noexcept nogil
cdef Py_ssize_t put_json_batch(
    Line* line, Py_ssize_t o, const unsigned char* p, const long long* frames, Py_ssize_t frame, long long origin
) noexcept nogil
cdef Py_ssize_t put_codec(unsigned char* out, Py_ssize_t o, int codec) noexcept nogil
cdef Py_ssize_t put_v2(Line* line, Py_ssize_t o, const unsigned char* p, Py_ssize_t at) noexcept nogil

cdef Py_ssize_t put_json_bytes(
    Line* line, Py_ssize_t start, Py_ssize_t size, bint as_base64, Py_ssize_t o
) noexcept nogil
cdef Py_ssize_t put_text(Line* line, Py_ssize_t start, Py_ssize_t size, Py_ssize_t o) noexcept nogil
cdef Py_ssize_t put_json_codec(unsigned char* out, Py_ssize_t o, int codec) noexcept nogil
