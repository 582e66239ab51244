/* LZ4 frames of independent blocks, as Kafka's producers and brokers write them (KIP-57), decompressed by liblz4. Its
 * functions are looked up when the first frame is met (kseg/formats/liblz4.py). The header is checked here, as Kafka
 * does (Lz4BlockInputStream.readHeader). The library would also check the content size and the content checksum, which
 * Kafka does not. The library is therefore given a header without them.
 */
#ifndef KSEG_LZ4_FRAMES_H
#define KSEG_LZ4_FRAMES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "expand.h"

enum {
    KSEG_LZ4F_VERSION = 100,
    KSEG_LZ4_HEADER_BYTES = 7,
    KSEG_LZ4_CONTENT_CHECKSUM = 0x04,
    KSEG_LZ4_CONTENT_SIZE = 0x08,
    KSEG_LZ4_BLOCK_CHECKSUMS = 0x10,
    KSEG_LZ4_INDEPENDENT_BLOCKS = 0x20
};

static struct {
    size_t (*create)(void **context, unsigned version);
    size_t (*destroy)(void *context);
    size_t (*frame_info)(void *context, void *info, const void *p, size_t *n);
    size_t (*decompress)(void *context, void *out, size_t *capacity, const void *p, size_t *n, const void *options);
    unsigned (*is_error)(size_t result);
} kseg_liblz4;

static inline void kseg_lz4_use(
    uintptr_t create, uintptr_t destroy, uintptr_t frame_info, uintptr_t decompress, uintptr_t is_error
) {
    *(uintptr_t *)&kseg_liblz4.destroy = destroy;
    *(uintptr_t *)&kseg_liblz4.frame_info = frame_info;
    *(uintptr_t *)&kseg_liblz4.decompress = decompress;
    *(uintptr_t *)&kseg_liblz4.is_error = is_error;
    *(uintptr_t *)&kseg_liblz4.create = create;
}

static inline int kseg_lz4_is_known(void) {
    return kseg_liblz4.create != NULL;
}

/* The position of the header's checksum; 0 if Kafka refuses the header. The checksum itself is not verified here. */
static inline size_t kseg_lz4_header_checksum_at(const uint8_t *p, size_t n) {
    static const uint8_t magic[4] = {0x04, 0x22, 0x4D, 0x18};
    size_t at;
    if (n < KSEG_LZ4_HEADER_BYTES || memcmp(p, magic, 4)) return 0;
    if ((p[4] & 0xC3) != 0x40 || !(p[4] & KSEG_LZ4_INDEPENDENT_BLOCKS) || p[5] & 0x8F || p[5] < 0x40) return 0;
    at = p[4] & KSEG_LZ4_CONTENT_SIZE ? 14 : 6;
    return at < n ? at : 0;
}

/* Writes the header of a frame with the same blocks, but without size and checksum of the content. */
static inline void kseg_lz4_bare_header(const uint8_t *p, uint8_t header[KSEG_LZ4_HEADER_BYTES]) {
    /* Header checksums, by block checksums and block size: the second byte of the xxh32 of the two previous bytes. */
    static const uint8_t checksums[2][4] = {{0x82, 0xFB, 0x51, 0x73}, {0xAD, 0x84, 0x33, 0x72}};
    memcpy(header, p, 4);
    header[4] = p[4] & ~(KSEG_LZ4_CONTENT_SIZE | KSEG_LZ4_CONTENT_CHECKSUM);
    header[5] = p[5];
    header[6] = checksums[(p[4] & KSEG_LZ4_BLOCK_CHECKSUMS) != 0][(p[5] >> 4) - 4];
}

/* A new context, which the caller must destroy; NULL if there is no memory. */
static inline void *kseg_lz4_create(void) {
    void *context = NULL;
    return kseg_liblz4.is_error(kseg_liblz4.create(&context, KSEG_LZ4F_VERSION)) ? NULL : context;
}

/* Whether the checksum of the header at p is right. */
static inline int kseg_lz4_header_is_right(const uint8_t *p, size_t n) {
    uint8_t header[KSEG_LZ4_HEADER_BYTES];
    uint64_t info[16]; /* LZ4F_frameInfo_t has 32 bytes */
    void *context;
    int is_right;
    kseg_lz4_bare_header(p, header);
    if (p[4] == header[4]) return p[6] == header[6];
    context = kseg_lz4_create();
    is_right = context && !kseg_liblz4.is_error(kseg_liblz4.frame_info(context, info, p, &n));
    if (context) kseg_liblz4.destroy(context);
    return is_right;
}

/* The decompressed size of the frame at p, whose blocks begin at `at`, or KSEG_EXPAND_*. */
static ptrdiff_t kseg_lz4_blocks(void *context, const uint8_t *p, size_t at, size_t n, uint8_t *out, size_t capacity) {
    const size_t behind = p[4] & KSEG_LZ4_CONTENT_CHECKSUM ? 4 : 0;
    uint8_t header[KSEG_LZ4_HEADER_BYTES];
    size_t made = 0, taken = KSEG_LZ4_HEADER_BYTES, left;
    kseg_lz4_bare_header(p, header);
    left = kseg_liblz4.decompress(context, out, &made, header, &taken, NULL);
    while (!kseg_liblz4.is_error(left)) {
        size_t some = capacity - made;
        taken = n - at;
        left = kseg_liblz4.decompress(context, out + made, &some, p + at, &taken, NULL);
        if (kseg_liblz4.is_error(left) || some > capacity - made || taken > n - at) break;
        made += some;
        at += taken;
        if (left == 0) return n - at == behind ? (ptrdiff_t)made : KSEG_EXPAND_REFUSED;
        if (some == 0 && taken == 0) return made == capacity ? KSEG_EXPAND_BUFFER_FULL : KSEG_EXPAND_REFUSED;
    }
    return KSEG_EXPAND_REFUSED;
}

/* The decompressed size of the frame at p, or KSEG_EXPAND_* (BUFFER_FULL also if liblz4 is not loaded yet). The
 * checksum in headers of magic 0 is wrong and not verified (KAFKA-3160). */
static ptrdiff_t kseg_lz4(const uint8_t *p, size_t n, int verify_header, uint8_t *out, size_t capacity) {
    const size_t checksum_at = kseg_lz4_header_checksum_at(p, n);
    ptrdiff_t held;
    void *context;
    if (!checksum_at) return KSEG_EXPAND_REFUSED;
    if (!kseg_lz4_is_known()) return KSEG_EXPAND_BUFFER_FULL;
    if (verify_header && !kseg_lz4_header_is_right(p, n)) return KSEG_EXPAND_REFUSED;
    context = kseg_lz4_create();
    if (!context) return KSEG_EXPAND_REFUSED;
    held = kseg_lz4_blocks(context, p, checksum_at + 1, n, out, capacity);
    kseg_liblz4.destroy(context);
    return held;
}

#endif
