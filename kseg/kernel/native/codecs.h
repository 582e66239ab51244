/* Compressed areas, decompressed by liblz4 and libzstd. kseg/formats/compression.py looks up their functions when
 * the first area is met, so the kernel is compiled without the libraries.
 */
#ifndef KSEG_CODECS_H
#define KSEG_CODECS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "constants.h"

/* ---- functions of the libraries, in the order in which compression.py names them ---- */

static struct {
    size_t (*create)(void **context, unsigned version);
    size_t (*destroy)(void *context);
    size_t (*frame_info)(void *context, void *info, const void *p, size_t *n);
    size_t (*decompress)(void *context, void *out, size_t *capacity, const void *p, size_t *n, const void *options);
    unsigned (*is_error)(size_t result);
} kseg_liblz4;

static struct {
    void *(*create)(void);
    size_t (*destroy)(void *context);
    size_t (*decompress)(void *context, void *out, size_t capacity, const void *p, size_t n);
    size_t (*frame_size)(const void *p, size_t n);
    unsigned (*is_error)(size_t result);
    int (*error_code)(size_t result);
} kseg_libzstd;

/* Stores a function of liblz4 or libzstd by its number. The first one must come last: then all are known. */
static inline void kseg_use_function(int is_zstd, int number, uintptr_t address) {
    uintptr_t *functions = is_zstd ? (uintptr_t *)&kseg_libzstd : (uintptr_t *)&kseg_liblz4;
    functions[number] = address;
}

static inline int kseg_is_known(int is_zstd) {
    return is_zstd ? kseg_libzstd.create != NULL : kseg_liblz4.create != NULL;
}

/* ---- LZ4 frames ----
 *
 * Frames of independent blocks, as Kafka's producers and brokers write them (KIP-57). The header is checked here, as
 * Kafka does (Lz4BlockInputStream.readHeader). The library would also check the content size and the content checksum,
 * which Kafka does not. The library is therefore given a header without them.
 */

enum {
    KSEG_LZ4F_VERSION = 100,
    KSEG_LZ4_HEADER_BYTES = 7,
    KSEG_LZ4_CONTENT_CHECKSUM = 0x04,
    KSEG_LZ4_CONTENT_SIZE = 0x08,
    KSEG_LZ4_BLOCK_CHECKSUMS = 0x10,
    KSEG_LZ4_INDEPENDENT_BLOCKS = 0x20
};

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

/* The decompressed size of the frame at p, whose blocks begin at `at`, or KSEG_*. */
static inline ptrdiff_t kseg_lz4_blocks(void *context, const uint8_t *p, size_t at, size_t n, uint8_t *out,
                                        size_t capacity) {
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
        if (left == 0) return n - at == behind ? (ptrdiff_t)made : KSEG_REFUSED;
        if (some == 0 && taken == 0) return made == capacity ? KSEG_BUFFER_FULL : KSEG_REFUSED;
    }
    return KSEG_REFUSED;
}

/* The decompressed size of the frame at p, or KSEG_* (BUFFER_FULL also if liblz4 is not loaded yet). The
 * checksum in headers of magic 0 is wrong and not verified (KAFKA-3160). */
static inline ptrdiff_t kseg_lz4(const uint8_t *p, size_t n, int verify_header, uint8_t *out, size_t capacity) {
    const size_t checksum_at = kseg_lz4_header_checksum_at(p, n);
    ptrdiff_t held;
    void *context;
    if (!checksum_at) return KSEG_REFUSED;
    if (!kseg_is_known(0)) return KSEG_BUFFER_FULL;
    if (verify_header && !kseg_lz4_header_is_right(p, n)) return KSEG_REFUSED;
    context = kseg_lz4_create();
    if (!context) return KSEG_REFUSED;
    held = kseg_lz4_blocks(context, p, checksum_at + 1, n, out, capacity);
    kseg_liblz4.destroy(context);
    return held;
}

/* ---- zstd frames ----
 *
 * Frames are checked first, as Kafka's streaming reader does: no window above 128 MiB, no block larger than the window,
 * no format older than zstd 0.8.
 */

enum {
    KSEG_ZSTD_BLOCK = 1 << 17,
    KSEG_ZSTD_DST_TOO_SMALL = 70 /* ZSTD_error_dstSize_tooSmall */
};

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

/* Whether no block of the complete frame at p is larger, which libzstd checks only if it streams. */
static inline int kseg_zstd_blocks_fit(const uint8_t *p, size_t n, size_t largest) {
    size_t at = kseg_zstd_first_block(p);
    int last = 0;
    while (!last && at + 3 <= n) {
        const uint32_t header = (uint32_t)kseg_little_endian(p + at, 3);
        const size_t size = header >> 3;
        last = header & 1;
        at += 3;
        if ((header >> 1 & 3) != 1 && size > largest) return 0;
        at += (header >> 1 & 3) == 1 ? 1 : size;
    }
    return last;
}

/* The decompressed size of the contiguous frames at p, or KSEG_*. */
static inline ptrdiff_t kseg_zstd(void *context, const uint8_t *p, size_t n, uint8_t *out, size_t capacity) {
    size_t at = 0, made = 0;
    while (at < n) {
        size_t size, held, largest;
        uint64_t magic;
        if (n - at < 8) return KSEG_REFUSED;
        magic = kseg_little_endian(p + at, 4);
        if ((magic & 0xFFFFFFF0u) == 0x184D2A50u) { /* a skippable frame */
            const uint64_t skipped = 8 + kseg_little_endian(p + at + 4, 4);
            if (skipped > n - at) return KSEG_REFUSED;
            at += (size_t)skipped;
            continue;
        }
        if (magic != 0xFD2FB528u) return KSEG_REFUSED;
        size = kseg_libzstd.frame_size(p + at, n - at);
        if (kseg_libzstd.is_error(size) || size == 0 || size > n - at) return KSEG_REFUSED;
        largest = kseg_zstd_largest_block(p + at, n - at);
        if (!largest || !kseg_zstd_blocks_fit(p + at, size, largest)) return KSEG_REFUSED;
        held = kseg_libzstd.decompress(context, out + made, capacity - made, p + at, size);
        if (kseg_libzstd.is_error(held))
            return kseg_libzstd.error_code(held) == KSEG_ZSTD_DST_TOO_SMALL ? KSEG_BUFFER_FULL
                                                                           : KSEG_REFUSED;
        if (held > capacity - made || (largest < KSEG_ZSTD_BLOCK && held > largest)) return KSEG_REFUSED;
        made += held;
        at += size;
    }
    return (ptrdiff_t)made;
}

#endif
