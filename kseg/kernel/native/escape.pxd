# escape.h, for the renderers.
cdef extern from "escape.h" nogil:
    # Each renderer calls the function once, when it is imported. Tests disable SIMD loops by the variable.
    void shuffle_setup "kseg_shuffle_setup"()
    int can_shuffle "kseg_can_shuffle"
    Py_ssize_t put "kseg_put"(unsigned char* out, Py_ssize_t o, const char* text)
    Py_ssize_t put_raw "kseg_put_raw"(unsigned char* out, Py_ssize_t o, const unsigned char* text, Py_ssize_t size)
    Py_ssize_t put_int "kseg_put_int"(unsigned char* out, Py_ssize_t o, long long value)
    Py_ssize_t put_number "kseg_put_number"(unsigned char* out, Py_ssize_t o, const char* text, long long value)
    Py_ssize_t put_field "kseg_put_field"(
        unsigned char* out, Py_ssize_t o, bint is_json, const char* text, const char* name, long long value,
        bint may_be_unset
    )
    Py_ssize_t put_java "kseg_put_java"(
        unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p, Py_ssize_t start, Py_ssize_t n
    )
    Py_ssize_t put_visible "kseg_put_visible"(
        unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p, Py_ssize_t start, Py_ssize_t n
    )
    Py_ssize_t put_json "kseg_put_json"(
        unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p, Py_ssize_t start, Py_ssize_t n
    )
    Py_ssize_t put_base64 "kseg_put_base64"(
        unsigned char* out, Py_ssize_t o, Py_ssize_t limit, const unsigned char* p, Py_ssize_t start, Py_ssize_t n
    )
