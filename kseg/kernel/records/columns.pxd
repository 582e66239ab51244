# What laying batches open takes from it.
cpdef enum:
    # Columns of what is wanted.
    WANTED_FIRST = 0
    WANTED_LAST = 1
    WANTED_EARLIEST = 2
    WANTED_LATEST = 3
    WANTED_WIDTH = 4

    # What of a row takes room.
    KEYS = 1
    VALUES = 2
    HEADERS = 4

cdef bint is_outside(const unsigned char* p, const long long* frame, const long long* wanted) noexcept nogil
