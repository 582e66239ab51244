# file_io.h, for windowed_scan.py only.
cdef extern from "file_io.h" nogil:
    long long read_at "kseg_read_at"(int descriptor, unsigned char* out, long long size, long long position)
