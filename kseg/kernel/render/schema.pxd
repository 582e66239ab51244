from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *

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

include "kseg/kernel/render/schema.pxi"
