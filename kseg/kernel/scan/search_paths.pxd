# The search for frames in C (search_paths.h). Interpreted, search.py defines the same names.
from kseg.kernel.native.prefixes cimport Prefixes

cdef extern from "search_paths.h" nogil:
    ctypedef struct search_state "struct kseg_search":
        pass
    void search_from "kseg_search_from"(search_state* search, Py_ssize_t i)
    Py_ssize_t next_candidate "kseg_next_candidate"(
        const unsigned char* p, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t end, bint v07, search_state* search,
        Prefixes* prefixes
    )
    int search_path_count "kseg_search_path_count"
    const char* search_path_name "kseg_search_path_name"(int path)
    void search_by "kseg_search_by"(int path)
    void search_setup "kseg_search_setup"()
