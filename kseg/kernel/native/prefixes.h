/* Prefix CRCs, shared by kseg/kernel/scan/frame_checksums.py, which tells what they are for, and near_checksums.h. */
#ifndef KSEG_PREFIXES_H
#define KSEG_PREFIXES_H

#include <stdint.h>

struct kseg_prefix_table {
    uint32_t *crcs;   /* of the bytes from the anchor to the beginning of each block */
    long long filled; /* entries of it, 0: none, and nothing below is set */
    long long start;  /* positions for which CRCs were computed last, -1 none: of a start and of an end */
    long long end;
    uint32_t start_crc;
    uint32_t end_crc;
    long long shifted; /* of bytes shifted over last, their number / 256 + 1, and the factor for these */
    uint32_t factor;
};

struct kseg_prefixes {
    long long anchor; /* where they begin, -1: not in use */
    struct kseg_prefix_table castagnoli;
    struct kseg_prefix_table ieee;
};

#endif
