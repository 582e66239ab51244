# writing.h, for write_behind.py only.
cdef extern from "writing.h" nogil:
    void begin "kseg_write_behind"(int descriptor, long long position, long long size)
