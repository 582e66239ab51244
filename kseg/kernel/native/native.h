/* What the kernel's modules share in C; layout/rows.py is the interpreted twin.
 *
 * Included by several extension modules, so everything here is static: each module has its own tables, filled by
 * kseg_native_setup() when it is imported.
 */
#ifndef KSEG_NATIVE_H
#define KSEG_NATIVE_H

#include "checksum.h"

/* Kafka's integers are signed and big-endian. Shifts, not a cast: right on any byte order and at any alignment, and
 * gcc and clang make one load of them. */
static inline int16_t kseg_be16(const unsigned char *p, ptrdiff_t i) {
    return (int16_t)(uint16_t)(p[i] << 8 | p[i + 1]);
}

static inline uint32_t kseg_unsigned_be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int64_t kseg_be32(const unsigned char *p, ptrdiff_t i) {
    return (int32_t)kseg_unsigned_be32(p + i);
}

static inline int64_t kseg_be64(const unsigned char *p, ptrdiff_t i) {
    p += i;
    return (int64_t)((uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
                     (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7]);
}

/* A zigzag varint of any length as kseg_varint gives it. Kept apart so that the other one stays small. */
static int64_t kseg_long_varint(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
    uint32_t value = 0;
    int used = 0;
    for (;;) {
        unsigned byte;
        if (used >= 5 || i + used >= end) return 0;
        byte = p[i + used];
        value |= (uint32_t)(byte & 127) << (7 * used);
        used++;
        if (byte < 128) break;
    }
    return (int64_t)(int32_t)(value >> 1 ^ (0 - (value & 1))) * 16 + used;
}

/* The zigzag varint at i as value * 16 + bytes used; 0 where there is none before end. One or two bytes are what nearly
 * all have. A walk is a chain of these, and a call for each would be a third of it. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((always_inline))
#endif
static inline int64_t kseg_varint(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
    int64_t value;
    if (i >= end) return 0;
    value = p[i];
    if (value < 128) return ((value >> 1) ^ -(value & 1)) * 16 + 1;
    if (i + 1 >= end || p[i + 1] >= 128) return kseg_long_varint(p, i, end);
    value = (value & 127) | (int64_t)p[i + 1] << 7;
    return ((value >> 1) ^ -(value & 1)) * 16 + 2;
}

/* a - b modulo 2^64, as Java subtracts longs. */
static inline int64_t kseg_difference(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* a + b, likewise. */
static inline int64_t kseg_sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline uint64_t kseg_zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* Bytes of the zigzag varint (or varlong) of a number. */
static inline int64_t kseg_varint_bytes(int64_t value) {
    uint64_t left = kseg_zigzag(value) >> 7;
    int64_t size = 1;
    for (; left; left >>= 7) size++;
    return size;
}

/* Writes that varint; the position behind it. */
static inline ptrdiff_t kseg_put_varint(unsigned char *out, ptrdiff_t at, int64_t value) {
    uint64_t left = kseg_zigzag(value);
    for (; left > 127; left >>= 7) out[at++] = (unsigned char)(left | 128);
    out[at] = (unsigned char)left;
    return at + 1;
}

/* Writes the low bytes of a number, the highest first; the position behind them. */
static inline ptrdiff_t kseg_put_big(unsigned char *out, ptrdiff_t at, int64_t value, int size) {
    int k;
    for (k = 0; k < size; k++) out[at + k] = (unsigned char)((uint64_t)value >> 8 * (size - 1 - k));
    return at + size;
}

/* Copies bytes, none where the size is negative; the position behind them. */
static inline ptrdiff_t kseg_put_bytes(unsigned char *out, ptrdiff_t at, const unsigned char *p, int64_t start,
                                       int64_t size) {
    if (size <= 0) return at;
    memcpy(out + at, p + start, (size_t)size);
    return at + (ptrdiff_t)size;
}

/* Lets the processor fetch what will be read soon. */
static inline void kseg_prefetch(const long long *p, long long i) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(p + i);
#else
    (void)p;
    (void)i;
#endif
}

#endif
