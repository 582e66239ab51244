# What windowed_scan.py, and no other module, reaches in reading.h.
cdef extern from "reading.h" nogil:
    long long read_at "kseg_read_at"(int descriptor, unsigned char* out, long long size, long long position)
