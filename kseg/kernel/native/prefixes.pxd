# Prefix CRCs: prefixes.h explains the fields.
cdef enum:
    # Bytes for each entry of a table.
    BLOCK_BYTES = 256

cdef extern from "prefixes.h" nogil:
    ctypedef struct PrefixTable "struct kseg_prefix_table":
        unsigned int* crcs
        long long filled
        long long start
        long long end
        unsigned int start_crc
        unsigned int end_crc
        long long shifted
        unsigned int factor
    ctypedef struct Prefixes "struct kseg_prefixes":
        long long anchor
        PrefixTable castagnoli
        PrefixTable ieee
