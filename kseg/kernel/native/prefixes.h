/* Prefix CRCs, used by kseg/kernel/scan/frame_scan.py, which explains them, and near_checksums.h. */
#ifndef KSEG_PREFIXES_H
#define KSEG_PREFIXES_H

#include <stdint.h>

struct kseg_prefix_table {
    uint32_t *crcs;   /* of the bytes from the anchor to the start of each block */
    long long filled; /* number of valid entries; 0: none, and the fields below are not set */
    long long start;  /* last positions (of a start and of an end) with a computed CRC, -1: none */
    long long end;
    uint32_t start_crc;
    uint32_t end_crc;
};

struct kseg_prefixes {
    long long anchor; /* position of the first byte, -1: not in use */
    struct kseg_prefix_table castagnoli;
    struct kseg_prefix_table ieee;
};

#endif
