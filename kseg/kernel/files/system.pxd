cdef extern from "guard.h":
    enum:
        KSEG_GUARD_MAX
    int guard_available "kseg_guard_available"()
    int guard_add "kseg_guard_add"(const void* start, size_t length)
    void guard_remove "kseg_guard_remove"(const void* start)
    int guard_hit "kseg_guard_hit"(const void* start)
    void keep_freed "kseg_keep_freed"()

cdef extern from "file_io.h" nogil:
    void write_behind "kseg_write_behind"(int descriptor, long long position, long long size)
