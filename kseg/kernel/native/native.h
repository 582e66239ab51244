/* Functions that the kernel's modules share in C; layout/rows.py is the interpreted twin.
 *
 * Included by several extension modules, so everything here is static: each module has its own tables, filled by
 * kseg_native_setup() when it is imported.
 */
#ifndef KSEG_NATIVE_H
#define KSEG_NATIVE_H

#include "checksum.h"
#include "constants.h" /* by kseg._build: the constants of layout/ */

/* Kafka's integers are signed and big-endian. Shifts work with any byte order and alignment; gcc and clang compile them
 * to one load. */
static inline int16_t kseg_be16(const unsigned char *p, ptrdiff_t i) {
    return (int16_t)(uint16_t)(p[i] << 8 | p[i + 1]);
}

static inline uint32_t kseg_unsigned_be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int64_t kseg_be32(const unsigned char *p, ptrdiff_t i) {
    return (int32_t)kseg_unsigned_be32(p + i);
}

static inline int64_t kseg_stored_crc(const unsigned char *p, ptrdiff_t i) {
    return kseg_unsigned_be32(p + i);
}

static inline int64_t kseg_be64(const unsigned char *p, ptrdiff_t i) {
    p += i;
    return (int64_t)((uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
                     (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7]);
}

/* kseg_varint returns the value of a varint and its length in bytes in one number: the length in the low bits. */
static inline int64_t kseg_packed_varint(int64_t value, int length) {
    return value * (1 << KSEG_VARINT_VALUE_SHIFT) + length;
}

/* A zigzag varint of any length, as kseg_varint returns it. A function of its own keeps kseg_varint small. */
static int64_t kseg_long_varint(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
    uint32_t value = 0;
    int k;
    for (k = 0; k < 5 && i + k < end; k++) {
        value |= (uint32_t)(p[i + k] & 127) << (7 * k);
        if (p[i + k] < 128) return kseg_packed_varint((int32_t)(value >> 1 ^ (0 - (value & 1))), k + 1);
    }
    return 0;
}

/* The value and the length of the zigzag varint at i, packed; 0 if it does not end before end. Nearly all have one or
 * two bytes. Inline: reading a record is a chain of varints, and calls would be a third of its time. */
KSEG_INLINE int64_t kseg_varint(const unsigned char *p, ptrdiff_t i, ptrdiff_t end) {
    int64_t value;
    if (i >= end) return 0;
    value = p[i];
    if (value < 128) return kseg_packed_varint((value >> 1) ^ -(value & 1), 1);
    if (i + 1 >= end || p[i + 1] >= 128) return kseg_long_varint(p, i, end);
    value = (value & 127) | (int64_t)p[i + 1] << 7;
    return kseg_packed_varint((value >> 1) ^ -(value & 1), 2);
}

/* a - b modulo 2^64, as Java subtracts longs. */
static inline int64_t kseg_difference(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* a + b modulo 2^64, as Java adds longs. */
static inline int64_t kseg_sum_of(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline uint64_t kseg_zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* The size of the zigzag varint (or varlong) of a number in bytes. */
static inline int64_t kseg_varint_bytes(int64_t value) {
    uint64_t left = kseg_zigzag(value) >> 7;
    int64_t size = 1;
    for (; left; left >>= 7) size++;
    return size;
}

/* Writes the zigzag varint of a number. Returns the position after it. */
static inline ptrdiff_t kseg_put_varint(unsigned char *out, ptrdiff_t at, int64_t value) {
    uint64_t left = kseg_zigzag(value);
    for (; left > 127; left >>= 7) out[at++] = (unsigned char)(left | 128);
    out[at] = (unsigned char)left;
    return at + 1;
}

/* Writes the low bytes of a number, big-endian. Returns the position after them. */
static inline ptrdiff_t kseg_put_big(unsigned char *out, ptrdiff_t at, int64_t value, int size) {
    int k;
    for (k = 0; k < size; k++) out[at + k] = (unsigned char)((uint64_t)value >> 8 * (size - 1 - k));
    return at + size;
}

/* Copies bytes, which may overlap; none if the size is negative. Returns the position after them. */
static inline ptrdiff_t kseg_put_bytes(unsigned char *out, ptrdiff_t at, const unsigned char *p, int64_t start,
                                       int64_t size) {
    if (size <= 0) return at;
    memmove(out + at, p + start, (size_t)size);
    return at + (ptrdiff_t)size;
}

/* Whether two byte strings are equal; null (a negative size) is equal only to null of the same size. */
static inline int kseg_are_same_bytes(const unsigned char *p, int64_t at, int64_t size, const unsigned char *q,
                                      int64_t other_at, int64_t other_size) {
    return size == other_size && (size <= 0 || !memcmp(p + at, q + other_at, (size_t)size));
}

/* Prefetches bytes that will be read soon. */
static inline void kseg_prefetch(const long long *p, long long i) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(p + i);
#else
    (void)p;
    (void)i;
#endif
}

#endif
