# The search for frames in C. Interpreted, search.py defines the same names.
cdef extern from "search.h" nogil:
    Py_ssize_t zeros_ahead "kseg_zeros_ahead"(const unsigned char* p, Py_ssize_t i, Py_ssize_t end)
    Py_ssize_t zeros_in_runs "kseg_zeros_in_runs"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t end, Py_ssize_t least
    )
    ctypedef struct search_state "struct kseg_search":
        pass
    void search_from "kseg_search_from"(search_state* search, Py_ssize_t i, long long largest_offset)
    Py_ssize_t next_candidate "kseg_next_candidate"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t end, bint v07, search_state* search
    )
