/* Compression of areas by liblz4. Its functions are looked up for the first Packer (kseg/formats/liblz4.py). */
#ifndef KSEG_LZ4_PACKER_H
#define KSEG_LZ4_PACKER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* LZ4F_preferences_t, whose layout liblz4 guarantees; each enum is an int. */
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

/* A context for frames of independent blocks of 64 KiB without content size, as Kafka's; NULL if there is no memory. */
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

/* Compresses the bytes at p to a frame. Returns its size, or -1. */
static inline ptrdiff_t kseg_lz4_pack(void *preferences, const uint8_t *p, size_t n, uint8_t *out, size_t capacity) {
    const size_t made = kseg_lz4_packer.compress(out, capacity, p, n, preferences);
    return kseg_lz4_packer.is_error(made) ? -1 : (ptrdiff_t)made;
}

#endif
