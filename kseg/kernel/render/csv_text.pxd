# csv_text.h, for csv_lines.py only.
cdef extern from "csv_text.h" nogil:
    Py_ssize_t put_csv "kseg_put_csv"(unsigned char* out, Py_ssize_t o, const unsigned char* p, Py_ssize_t n)
