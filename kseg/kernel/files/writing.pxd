# file_io.h: what write_behind.py uses.
cdef extern from "file_io.h" nogil:
    void begin "kseg_write_behind"(int descriptor, long long position, long long size)
