# The search for frames, in C: near_checksums.h. Interpreted, the same names come from search.py.
cdef extern from "near_checksums.h" nogil:
    ctypedef struct search_state "struct kseg_search":
        pass
    void search_from "kseg_search_from"(search_state* search, Py_ssize_t i)
    Py_ssize_t next_candidate "kseg_next_candidate"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t end, bint v07, search_state* search,
        const unsigned int* table_c, const unsigned int* table_ieee, long long* state
    )
