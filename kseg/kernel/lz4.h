/* LZ4 frames of independent blocks, as Kafka's producers and brokers write them (KIP-57).
 *
 * What is taken here is a subset of what the reference decoder takes, and gives the same bytes: no offset of 0, no
 * match that begins in the last 8 bytes of a block. No encoder writes those, and whoever calls us asks a library about
 * a stream that is refused here, so that one place decides what is wrong with it.
 */
#ifndef KSEG_LZ4_H
#define KSEG_LZ4_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "expand.h"

static inline uint32_t kseg_le32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t kseg_le16(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8;
}

/* xxh32 with seed 0, which frames are checked with. */
static inline uint32_t kseg_rotated(uint32_t value, int bits) {
    return value << bits | value >> (32 - bits);
}

static uint32_t kseg_xxh32(const uint8_t *p, size_t n) {
    const uint32_t prime1 = 0x9E3779B1u, prime2 = 0x85EBCA77u, prime3 = 0xC2B2AE3Du, prime4 = 0x27D4EB2Fu;
    const uint32_t prime5 = 0x165667B1u;
    const uint8_t *const end = p + n;
    uint32_t hash = prime5;
    if (n >= 16) {
        uint32_t lanes[4] = {prime1 + prime2, prime2, 0, 0u - prime1};
        int lane;
        for (; end - p >= 16; p += 16)
            for (lane = 0; lane < 4; lane++)
                lanes[lane] = kseg_rotated(lanes[lane] + kseg_le32(p + 4 * lane) * prime2, 13) * prime1;
        hash = kseg_rotated(lanes[0], 1) + kseg_rotated(lanes[1], 7) + kseg_rotated(lanes[2], 12) +
               kseg_rotated(lanes[3], 18);
    }
    hash += (uint32_t)n;
    for (; end - p >= 4; p += 4) hash = kseg_rotated(hash + kseg_le32(p) * prime3, 17) * prime4;
    for (; p < end; p++) hash = kseg_rotated(hash + *p * prime5, 11) * prime1;
    hash = (hash ^ hash >> 15) * prime2;
    hash = (hash ^ hash >> 13) * prime3;
    return hash ^ hash >> 16;
}

/* A match may overlap what it writes: then it repeats the last `distance` bytes. */
static void kseg_repeat(uint8_t *out, size_t distance, size_t n) {
    const uint8_t *const from = out - distance;
    while (n > distance) {
        memcpy(out, from, distance);
        out += distance;
        n -= distance;
        distance *= 2;
    }
    memcpy(out, from, n);
}

/* A length beyond the 15 that a token holds. `stop`: what the position may not go beyond. */
static inline int kseg_lz4_length(const uint8_t **position, const uint8_t *stop, size_t *length) {
    uint32_t more;
    do {
        if (*position >= stop) return 0;
        more = *(*position)++;
        *length += more;
    } while (more == 255);
    return 1;
}

enum { KSEG_LZ4_AHEAD = 34, KSEG_LZ4_BEYOND = 96, KSEG_LZ4_LONGEST_STEP = 64 };

/* Sequences while they are short and lie well inside both buffers, which is nearly all of them: copies of a fixed size,
 * whose excess is written over by what follows. The most that a step reads is 17 bytes behind its token, the most that
 * it writes 14 literals and KSEG_LZ4_LONGEST_STEP. A token without literals is told apart by a branch since a load that
 * waits for the length of the literals before it takes longer than the branches that are mispredicted.
 *
 * Stops before a sequence that is not for it: too long, too near an end, or wrong. */
static void kseg_lz4_short_sequences(
    const uint8_t **position, const uint8_t *end, const uint8_t *start, uint8_t **written, uint8_t *limit
) {
    const uint8_t *in = *position;
    uint8_t *out = *written;
    if (end - in < KSEG_LZ4_AHEAD || limit - out < KSEG_LZ4_BEYOND) return;
    end -= KSEG_LZ4_AHEAD;
    limit -= KSEG_LZ4_BEYOND;
    while (in <= end && out <= limit) {
        const uint8_t *next = in + 1, *match;
        uint8_t *to = out;
        const uint32_t token = *in, literals = token >> 4, size = token & 15;
        size_t distance;
        if (literals) {
            if (literals == 15) break;
            memcpy(to, next, 16);
            next += literals;
            to += literals;
        }
        distance = kseg_le16(next);
        if (distance > (size_t)(to - start)) break;
        match = to - distance;
        if (size < 15) {
            if (distance >= 8) {
                memcpy(to, match, 8);
                memcpy(to + 8, match + 8, 8);
                if (size > 12) memcpy(to + 16, match + 16, 4);
            } else if (distance > 0) {
                kseg_repeat(to, distance, size + 4);
            } else {
                break;
            }
            in = next + 2;
            out = to + size + 4;
        } else {
            const uint32_t more = next[2];
            if (distance < 32 || more > KSEG_LZ4_LONGEST_STEP - 19) break;
            memcpy(to, match, 32);
            memcpy(to + 32, match + 32, 32);
            in = next + 3;
            out = to + 19 + more;
        }
    }
    *position = in;
    *written = out;
}

/* The bytes that a block of n bytes holds, written at `start`; -1 where it is refused or holds more than `capacity`.
 * No more than that is written. */
static ptrdiff_t kseg_lz4_block(const uint8_t *in, size_t n, uint8_t *start, size_t capacity) {
    const uint8_t *const end = in + n;
    uint8_t *out = start, *const limit = start + capacity;
    for (;;) {
        uint32_t token;
        size_t literals, size, distance;
        kseg_lz4_short_sequences(&in, end, start, &out, limit);
        if (in >= end) return -1;
        token = *in++;
        literals = token >> 4;
        if (literals == 15 && (end - in < 15 || !kseg_lz4_length(&in, end - 15, &literals))) return -1;
        if (literals == (size_t)(end - in)) {
            if (literals > (size_t)(limit - out)) return -1;
            memcpy(out, in, literals);
            return out + literals - start;
        }
        if ((size_t)(end - in) < 8 || literals > (size_t)(end - in) - 8) return -1;
        if ((size_t)(limit - out) < 12 || literals > (size_t)(limit - out) - 12) return -1;
        memcpy(out, in, literals);
        in += literals;
        out += literals;
        distance = kseg_le16(in);
        in += 2;
        size = token & 15;
        if (size == 15 && !kseg_lz4_length(&in, end - 4, &size)) return -1;
        size += 4;
        if (distance == 0 || distance > (size_t)(out - start)) return -1;
        if (size > (size_t)(limit - out) - 5) return -1;
        kseg_repeat(out, distance, size);
        out += size;
    }
}

/* The first byte behind the frame's header, 0 where it is refused (Lz4BlockInputStream.readHeader). */
static size_t kseg_lz4_header(const uint8_t *p, size_t n, int verify_header) {
    size_t checksum;
    if (n < 7 || kseg_le32(p) != 0x184D2204u) return 0;
    if ((p[4] & 0xC3) != 0x40 || !(p[4] & 0x20) || p[5] & 0x8F || p[5] < 0x40) return 0;
    checksum = p[4] & 0x08 ? 14 : 6;
    if (n <= checksum) return 0;
    if (verify_header && p[checksum] != (kseg_xxh32(p + 4, checksum - 4) >> 8 & 0xFF)) return 0;
    return checksum + 1;
}

/* The bytes that the frame at p holds, or KSEG_EXPAND_*. */
static ptrdiff_t kseg_lz4(const uint8_t *p, size_t n, int verify_header, uint8_t *out, size_t capacity) {
    size_t at = kseg_lz4_header(p, n, verify_header), made = 0;
    size_t largest, checksum_bytes;
    if (at == 0) return KSEG_EXPAND_REFUSED;
    largest = (size_t)1 << (8 + 2 * (p[5] >> 4));
    checksum_bytes = p[4] & 0x10 ? 4 : 0;
    for (;;) {
        uint32_t word;
        size_t size, room = capacity - made;
        if (n - at < 4) return KSEG_EXPAND_REFUSED;
        word = kseg_le32(p + at);
        at += 4;
        if (word == 0) break;
        size = word & 0x7FFFFFFFu;
        if (size > largest || size > n - at || checksum_bytes > n - at - size) return KSEG_EXPAND_REFUSED;
        if (checksum_bytes && kseg_xxh32(p + at, size) != kseg_le32(p + at + size)) return KSEG_EXPAND_REFUSED;
        if (word >> 31) {
            if (size > room) return KSEG_EXPAND_NO_ROOM;
            memcpy(out + made, p + at, size);
            made += size;
        } else {
            const ptrdiff_t held = kseg_lz4_block(p + at, size, out + made, room < largest ? room : largest);
            if (held < 0) return room < largest ? KSEG_EXPAND_NO_ROOM : KSEG_EXPAND_REFUSED;
            made += (size_t)held;
        }
        at += size + checksum_bytes;
    }
    /* Kafka reads the checksum of the content and does not verify it. */
    if (p[4] & 0x04 && n - at < 4) return KSEG_EXPAND_REFUSED;
    return (ptrdiff_t)made;
}

#endif
