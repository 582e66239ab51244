from kseg.kernel.codecs.expand cimport Room

cpdef enum:
    # What `open_batch` answers: the batch is open; a larger room is needed; the caller has to open it.
    OPENED = 0
    NO_ROOM = 1
    CLOSED = 2

    # Why `read_batch` refuses records, beside the REASONS of record_fields.
    NOT_RISING = 101
    OUT_OF_RANGE = 102
    TOO_MANY = 103

# The batches of a window (rows BATCH_*) and the buffers of one thread for their records. ``opened``: the records of
# the next batch, if the caller has opened it; a size of -1: it has not. ``payload`` from ``first`` to ``end``: the
# records of the batch that was opened last.
cdef struct BatchWindow:
    const unsigned char* p
    const long long* batches
    Py_ssize_t count
    const long long* verdicts
    long long* rows
    Py_ssize_t row_capacity
    unsigned char* room
    Py_ssize_t room_bytes
    void* zstd
    const unsigned char* opened
    Py_ssize_t opened_size
    const unsigned char* payload
    Py_ssize_t first
    Py_ssize_t end

cdef int fill_window(
    BatchWindow* window, const unsigned char[::1] data, const long long[::1] batches, Py_ssize_t count,
    const long long[::1] verdicts, long long[::1] rows, Room room, const unsigned char[::1] opened
) except -1
cdef int open_batch(BatchWindow* window, Py_ssize_t at) noexcept nogil
cdef bint count_is_right(BatchWindow* window, Py_ssize_t at) noexcept nogil
cdef int read_batch(BatchWindow* window, Py_ssize_t at) noexcept nogil
