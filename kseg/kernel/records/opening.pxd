from kseg.kernel.layout.headers cimport *
from kseg.kernel.layout.rows cimport *
from kseg.kernel.codecs.expand cimport ExpansionBuffer

cpdef enum:
    # Results of a pass over the batches of a window. OUTPUT_FULL, ROWS_FULL: the output or rows are too short for the
    # next batch. NEEDS_BUFFER: extend the expansion buffer. NEEDS_OPENING: the caller must decompress the batch.
    # MALFORMED: its records are malformed (``reason``).
    DONE = 0
    OUTPUT_FULL = 1
    ROWS_FULL = 2
    NEEDS_BUFFER = 3
    NEEDS_OPENING = 4
    MALFORMED = 5

    # Reasons, beside the REASONS of record_fields.
    NOT_RISING = 101
    OUT_OF_RANGE = 102
    TOO_MANY = 103

# The batches of a window (rows BATCH_*) and the buffers of one thread for their records. ``verdicts``: for each batch,
# bits that the user of the window defines. ``opened``: the records of the next batch, if the caller has decompressed
# it, else the size is -1. ``payload`` from ``first`` to ``end``: the records of the batch opened last. ``reason``: why
# it is MALFORMED.
cdef struct BatchWindow:
    const unsigned char* p
    const long long* batches
    Py_ssize_t count
    const long long* verdicts
    long long* rows
    Py_ssize_t row_capacity
    unsigned char* expanded
    Py_ssize_t expanded_bytes
    void* zstd
    const unsigned char* opened
    Py_ssize_t opened_size
    const unsigned char* payload
    Py_ssize_t first
    Py_ssize_t end
    int reason

cdef int fill_window(
    BatchWindow* window, const unsigned char[::1] data, const long long[::1] batches, Py_ssize_t count,
    const long long[::1] verdicts, long long[::1] rows, ExpansionBuffer expansion, const unsigned char[::1] opened
) except -1
cdef int open_batch(BatchWindow* window, Py_ssize_t at) noexcept nogil
cdef int read_batch(BatchWindow* window, Py_ssize_t at) noexcept nogil
cdef int read_rows(BatchWindow* window, Py_ssize_t at) noexcept nogil
