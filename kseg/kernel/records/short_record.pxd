# What records.py reaches in short_record.h.
cdef extern from "short_record.h" nogil:
    Py_ssize_t read_short_record "kseg_read_short_record"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t end, long long* fields
    )
