/* Areas compressed by liblz4, whose functions are found when a target asks for them (kseg/formats/liblz4.py). */
#ifndef KSEG_LZ4_PACKER_H
#define KSEG_LZ4_PACKER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* LZ4F_preferences_t, as liblz4 has promised to keep it; each enum is an int. */
typedef struct {
    int block_size, block_mode, content_checksum, frame_type;
    unsigned long long content_size;
    unsigned dictionary;
    int block_checksum;
    int level;
    unsigned auto_flush, favor_reading, reserved[3];
} kseg_lz4_preferences;

enum { KSEG_LZ4_64_KIB = 4, KSEG_LZ4_INDEPENDENT = 1 };

static struct {
    size_t (*compress)(void *out, size_t capacity, const void *p, size_t n, const kseg_lz4_preferences *preferences);
    unsigned (*is_error)(size_t result);
} kseg_lz4_packer;

static inline void kseg_lz4_packer_use(uintptr_t compress, uintptr_t is_error) {
    *(uintptr_t *)&kseg_lz4_packer.compress = compress;
    *(uintptr_t *)&kseg_lz4_packer.is_error = is_error;
}

/* For frames of independent blocks of 64 KiB that tell no size, as Kafka's are; NULL where there is no memory. */
static inline void *kseg_lz4_packer_create(int level) {
    kseg_lz4_preferences *made = calloc(1, sizeof *made);
    if (made) {
        made->block_size = KSEG_LZ4_64_KIB;
        made->block_mode = KSEG_LZ4_INDEPENDENT;
        made->level = level;
    }
    return made;
}

static inline void kseg_lz4_packer_destroy(void *preferences) {
    free(preferences);
}

/* Bytes of the frame that holds those at p, or -1. */
static inline ptrdiff_t kseg_lz4_pack(void *preferences, const uint8_t *p, size_t n, uint8_t *out, size_t capacity) {
    const size_t made = kseg_lz4_packer.compress(out, capacity, p, n, preferences);
    return kseg_lz4_packer.is_error(made) ? -1 : (ptrdiff_t)made;
}

#endif
