# file_io.h: what windowed_scan.py uses.
cdef extern from "file_io.h" nogil:
    long long read_at "kseg_read_at"(int descriptor, unsigned char* out, long long size, long long position)
