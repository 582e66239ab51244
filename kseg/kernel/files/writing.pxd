# file_io.h, for write_behind.py only.
cdef extern from "file_io.h" nogil:
    void begin "kseg_write_behind"(int descriptor, long long position, long long size)
