/* Compression of areas by libzstd. Its functions are looked up for the first Packer (kseg/formats/libzstd.py). */
#ifndef KSEG_ZSTD_PACKER_H
#define KSEG_ZSTD_PACKER_H

#include <stddef.h>
#include <stdint.h>

/* Values of enum ZSTD_cParameter. */
enum { KSEG_ZSTD_LEVEL = 100, KSEG_ZSTD_CONTENT_SIZE = 200 };

static struct {
    void *(*create)(void);
    size_t (*destroy)(void *context);
    size_t (*set)(void *context, int parameter, int value);
    size_t (*compress)(void *context, void *out, size_t capacity, const void *p, size_t n);
    unsigned (*is_error)(size_t result);
} kseg_zstd_packer;

static inline void kseg_zstd_packer_use(
    uintptr_t create, uintptr_t destroy, uintptr_t set, uintptr_t compress, uintptr_t is_error
) {
    *(uintptr_t *)&kseg_zstd_packer.create = create;
    *(uintptr_t *)&kseg_zstd_packer.destroy = destroy;
    *(uintptr_t *)&kseg_zstd_packer.set = set;
    *(uintptr_t *)&kseg_zstd_packer.compress = compress;
    *(uintptr_t *)&kseg_zstd_packer.is_error = is_error;
}

static inline void kseg_zstd_packer_destroy(void *context) {
    if (context) kseg_zstd_packer.destroy(context);
}

/* A context for frames without content size, as Kafka's; NULL if it cannot be created. */
static inline void *kseg_zstd_packer_create(int level) {
    void *context = kseg_zstd_packer.create();
    if (context && (kseg_zstd_packer.is_error(kseg_zstd_packer.set(context, KSEG_ZSTD_LEVEL, level)) ||
                    kseg_zstd_packer.is_error(kseg_zstd_packer.set(context, KSEG_ZSTD_CONTENT_SIZE, 0)))) {
        kseg_zstd_packer_destroy(context);
        return NULL;
    }
    return context;
}

/* Compresses the bytes at p to a frame. Returns its size, or -1. */
static inline ptrdiff_t kseg_zstd_pack(void *context, const uint8_t *p, size_t n, uint8_t *out, size_t capacity) {
    const size_t made = kseg_zstd_packer.compress(context, out, capacity, p, n);
    return kseg_zstd_packer.is_error(made) ? -1 : (ptrdiff_t)made;
}

#endif
