# What write_behind.py, and no other module, reaches in writing.h.
cdef extern from "writing.h" nogil:
    void begin "kseg_write_behind"(int descriptor, long long position, long long size)
