/* Constants of headers that C needs too: layout/headers.pxd declares them for Cython, and the interpreted kernel reads
 * their values from here. kseg.formats.record_batch and message_set show the tables of fields.
 */
#ifndef KSEG_HEADER_LAYOUT_H
#define KSEG_HEADER_LAYOUT_H

enum {
    /* Magic of record batches; messages have 0 or 1. */
    KSEG_MAGIC_V2 = 2,
    /* Of zstd. Batches with a codec above it are unknown to this version. */
    KSEG_HIGHEST_CODEC = 4,
    KSEG_CODEC = 7,

    /* Of every entry since 0.8. The overhead is the offset and the size, which the size does not count. */
    KSEG_ENTRY_OFFSET = 0,
    KSEG_ENTRY_SIZE = 8,
    KSEG_ENTRY_MAGIC = 16,
    KSEG_ENTRY_OVERHEAD = 12,

    /* Of a v2 batch. FLAGS is the low byte of the attributes: the high byte is unused. */
    KSEG_V2_FLAGS = 22,
    KSEG_V2_LAST_OFFSET_DELTA = 23,
    KSEG_V2_PRODUCER_ID = 43,
    KSEG_V2_BASE_SEQUENCE = 53,
    KSEG_V2_COUNT = 57,
    KSEG_V2_HEADER_BYTES = 61,

    /* Of a v0 message; a v1 message has a timestamp of 8 bytes more. The sizes are those of key and value. */
    KSEG_V0_HEADER_BYTES = 18,
    KSEG_V1_TIMESTAMP_BYTES = 8,
    KSEG_SIZES_BYTES = 8,

    /* Of a message of 0.7, which begins with its size. One of magic 1 has a byte of attributes before its CRC. */
    KSEG_V07_SIZE_BYTES = 4,
    KSEG_V07_MAGIC = 4,
    KSEG_V07_LEAST_BYTES = 9
};

#endif
