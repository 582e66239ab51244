/* zstd frames, decompressed by libzstd. Its functions are looked up for the first frame (kseg/formats/libzstd.py), so
 * the kernel is compiled without libzstd. Frames are checked first, as Kafka's streaming reader does: no window above
 * 128 MiB, no block larger than the window, no format older than zstd 0.8.
 */
#ifndef KSEG_ZSTD_H
#define KSEG_ZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "expand.h"

enum { KSEG_ZSTD_DST_TOO_SMALL = 70 }; /* ZSTD_error_dstSize_tooSmall */

static struct {
    void *(*create)(void);
    size_t (*destroy)(void *context);
    size_t (*decompress)(void *context, void *out, size_t capacity, const void *p, size_t n);
    size_t (*frame_size)(const void *p, size_t n);
    unsigned (*is_error)(size_t result);
    int (*error_code)(size_t result);
} kseg_libzstd;

static inline void kseg_zstd_use(
    uintptr_t create, uintptr_t destroy, uintptr_t decompress, uintptr_t frame_size, uintptr_t is_error,
    uintptr_t error_code
) {
    *(uintptr_t *)&kseg_libzstd.destroy = destroy;
    *(uintptr_t *)&kseg_libzstd.decompress = decompress;
    *(uintptr_t *)&kseg_libzstd.frame_size = frame_size;
    *(uintptr_t *)&kseg_libzstd.is_error = is_error;
    *(uintptr_t *)&kseg_libzstd.error_code = error_code;
    *(uintptr_t *)&kseg_libzstd.create = create;
}

/* A new context; NULL if there is no libzstd or no memory. */
static inline void *kseg_zstd_create(void) {
    return kseg_libzstd.create ? kseg_libzstd.create() : NULL;
}

static inline void kseg_zstd_destroy(void *context) {
    if (context) kseg_libzstd.destroy(context);
}

static inline uint64_t kseg_little_endian(const uint8_t *p, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | p[bytes];
    return value;
}

/* The position of the first block of the frame at p. */
static inline size_t kseg_zstd_first_block(const uint8_t *p) {
    static const unsigned char id_bytes[4] = {0, 1, 2, 4}, size_bytes[4] = {0, 2, 4, 8};
    const int is_single = p[4] >> 5 & 1, size_code = p[4] >> 6;
    return 6 - (size_t)is_single + id_bytes[p[4] & 3] + (is_single && !size_code ? 1 : size_bytes[size_code]);
}

enum { KSEG_ZSTD_BLOCK = 1 << 17 };

/* The largest block that a streaming decoder accepts in the frame at p, which its window limits; 0 if the window is too
 * large. n is at least 8.
 */
static inline size_t kseg_zstd_largest_block(const uint8_t *p, size_t n) {
    const uint64_t largest_window = ((uint64_t)1 << 27) + 1;
    const size_t blocks = kseg_zstd_first_block(p);
    uint64_t window;
    if (p[4] & 0x20) {
        const int bytes = p[4] >> 6 ? 1 << (p[4] >> 6) : 1;
        if (blocks > n) return 0;
        window = kseg_little_endian(p + blocks - bytes, bytes) + (bytes == 2 ? 256 : 0);
    } else {
        window = (uint64_t)1 << (10 + (p[5] >> 3));
        window += (window >> 3) * (p[5] & 7);
    }
    if (window > largest_window) return 0;
    return window > KSEG_ZSTD_BLOCK ? KSEG_ZSTD_BLOCK : window ? (size_t)window : 1;
}

/* Whether the two reserved bits before the sequences of a compressed block are zero, or missing. */
static inline int kseg_zstd_block_is_known(const uint8_t *p, size_t n) {
    size_t at;
    if (n < 5) return 1;
    if ((p[0] & 2) == 0) { /* raw literals, or one repeated literal */
        const unsigned format = p[0] >> 2 & 3;
        at = format == 1 ? 2 : format == 3 ? 3 : 1;
        at += p[0] & 1 ? 1 : kseg_little_endian(p, (int)at) >> (format & 1 ? 4 : 3);
    } else {
        const unsigned format = p[0] >> 2 & 3;
        const int width = format < 2 ? 10 : format == 2 ? 14 : 18;
        at = format < 2 ? 3 : format == 2 ? 4 : 5;
        at += kseg_little_endian(p, (int)at) >> (4 + width) & (((uint64_t)1 << width) - 1);
    }
    if (at >= n || p[at] == 0) return 1;
    at += p[at] < 128 ? 1 : p[at] < 255 ? 2 : 3;
    return at >= n || (p[at] & 3) == 0;
}

/* libzstd checks these bits since 1.5.5, as in Kafka's version, and sizes of blocks only if it streams. The frame is
 * complete. */
static inline int kseg_zstd_is_known(const uint8_t *p, size_t n, size_t largest) {
    size_t at = kseg_zstd_first_block(p);
    int last = 0;
    while (!last && at + 3 <= n) {
        const uint32_t header = (uint32_t)kseg_little_endian(p + at, 3);
        const size_t size = header >> 3;
        last = header & 1;
        at += 3;
        if ((header >> 1 & 3) != 1 && size > largest) return 0;
        if ((header >> 1 & 3) == 2 && (size > n - at || !kseg_zstd_block_is_known(p + at, size))) return 0;
        at += (header >> 1 & 3) == 1 ? 1 : size;
    }
    return last;
}

/* The decompressed size of the contiguous frames at p, or KSEG_EXPAND_*. */
static ptrdiff_t kseg_zstd(void *context, const uint8_t *p, size_t n, uint8_t *out, size_t capacity) {
    size_t at = 0, made = 0;
    while (at < n) {
        size_t size, held, largest;
        uint64_t magic;
        if (n - at < 8) return KSEG_EXPAND_REFUSED;
        magic = kseg_little_endian(p + at, 4);
        if ((magic & 0xFFFFFFF0u) == 0x184D2A50u) { /* a skippable frame */
            const uint64_t skipped = 8 + kseg_little_endian(p + at + 4, 4);
            if (skipped > n - at) return KSEG_EXPAND_REFUSED;
            at += (size_t)skipped;
            continue;
        }
        if (magic != 0xFD2FB528u) return KSEG_EXPAND_REFUSED;
        size = kseg_libzstd.frame_size(p + at, n - at);
        if (kseg_libzstd.is_error(size) || size == 0 || size > n - at) return KSEG_EXPAND_REFUSED;
        largest = kseg_zstd_largest_block(p + at, n - at);
        if (!largest || !kseg_zstd_is_known(p + at, size, largest)) return KSEG_EXPAND_REFUSED;
        held = kseg_libzstd.decompress(context, out + made, capacity - made, p + at, size);
        if (kseg_libzstd.is_error(held))
            return kseg_libzstd.error_code(held) == KSEG_ZSTD_DST_TOO_SMALL ? KSEG_EXPAND_BUFFER_FULL
                                                                           : KSEG_EXPAND_REFUSED;
        if (held > capacity - made || (largest < KSEG_ZSTD_BLOCK && held > largest)) return KSEG_EXPAND_REFUSED;
        made += held;
        at += size;
    }
    return (ptrdiff_t)made;
}

#endif
