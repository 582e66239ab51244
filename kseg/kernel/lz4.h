/* LZ4 frames of independent blocks, as Kafka's producers and brokers write them (KIP-57).
 *
 * What is taken here is a subset of what the reference decoder takes, and gives the same bytes: no offset of 0, no
 * match that begins in the last 8 bytes of a block, nothing behind the frame. No encoder writes those, and whoever
 * calls us asks a library about a stream that is refused here, so that one place decides what is wrong with it.
 */
#ifndef KSEG_LZ4_H
#define KSEG_LZ4_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "expand.h"

#if defined(__GNUC__) || defined(__clang__)
#define KSEG_LZ4_INLINE static inline __attribute__((always_inline))
#else
#define KSEG_LZ4_INLINE static inline
#endif

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

/* A block on its way: what is left of it, and where its bytes go. No more than up to `limit` is written. */
struct kseg_lz4_block {
    const uint8_t *in, *end;
    uint8_t *out, *limit, *start;
};

/* The most that a step goes on by in either buffer, and room for what it touches beyond. */
enum { KSEG_LZ4_MOST_READ = 18, KSEG_LZ4_MOST_WRITTEN = 78, KSEG_LZ4_AHEAD = 34, KSEG_LZ4_BEYOND = 96 };
enum { KSEG_LZ4_LONGEST_STEP = 64 };

/* How many steps of kseg_lz4_step lie well inside both buffers, whatever is met. */
static inline ptrdiff_t kseg_lz4_sure_steps(const struct kseg_lz4_block *block) {
    const ptrdiff_t ahead = block->end - block->in - KSEG_LZ4_AHEAD;
    const ptrdiff_t beyond = block->limit - block->out - KSEG_LZ4_BEYOND;
    const ptrdiff_t reads = ahead / KSEG_LZ4_MOST_READ, writes = beyond / KSEG_LZ4_MOST_WRITTEN;
    return ahead < 0 || beyond < 0 ? 0 : reads < writes ? reads : writes;
}

/* One sequence, if it is a short one, which nearly all are: copies of a fixed size, whose excess is written over by
 * what follows. 0: it is not for it, being long, wrong, or a match that overlaps itself.
 *
 * Of a block alone, a token without literals is told apart by a branch, since a load that waits for the length of the
 * literals before it takes longer than the branches that are mispredicted. Of two blocks the one waits while the other
 * goes on. */
KSEG_LZ4_INLINE int kseg_lz4_step(const uint8_t **position, uint8_t **written, const uint8_t *start, int alone) {
    const uint8_t *const in = *position, *next = in + 1, *match;
    uint8_t *to = *written;
    const uint32_t token = *in, literals = token >> 4, size = token & 15;
    size_t distance;
    if (token >= 0xF0) return 0;
    if (!alone || literals) {
        memcpy(to, next, 16);
        next += literals;
        to += literals;
    }
    distance = kseg_le16(next);
    if (distance > (size_t)(to - start) || distance < 8) return 0;
    match = to - distance;
    memcpy(to, match, 8);
    memcpy(to + 8, match + 8, 8);
    if (size < 15) {
        memcpy(to + 16, match + 16, 4);
        *position = next + 2;
        *written = to + size + 4;
        return 1;
    } else {
        const uint32_t more = next[2];
        if (distance < 32 || more > KSEG_LZ4_LONGEST_STEP - 19) return 0;
        memcpy(to + 16, match + 16, 16);
        memcpy(to + 32, match + 32, 32);
        *position = next + 3;
        *written = to + 19 + more;
        return 1;
    }
}

/* Steps of a block as long as they can be taken. */
static void kseg_lz4_steps(struct kseg_lz4_block *block) {
    const uint8_t *in = block->in;
    uint8_t *out = block->out;
    ptrdiff_t steps = kseg_lz4_sure_steps(block);
    while (steps-- && kseg_lz4_step(&in, &out, block->start, 1)) continue;
    block->in = in;
    block->out = out;
}

/* Steps of two blocks in turns as long as both can be taken; which one can't, or NULL. */
static struct kseg_lz4_block *kseg_lz4_steps_in_turns(struct kseg_lz4_block *one, struct kseg_lz4_block *other) {
    const uint8_t *in = one->in, *other_in = other->in;
    uint8_t *out = one->out, *other_out = other->out;
    struct kseg_lz4_block *stopped = NULL;
    ptrdiff_t steps, other_steps;
    do {
        steps = kseg_lz4_sure_steps(one);
        other_steps = kseg_lz4_sure_steps(other);
        if (other_steps < steps) steps = other_steps;
        if (steps == 0) break;
        for (; steps; steps--) {
            if (!kseg_lz4_step(&in, &out, one->start, 0)) {
                stopped = one;
                break;
            }
            if (!kseg_lz4_step(&other_in, &other_out, other->start, 0)) {
                stopped = other;
                break;
            }
        }
        one->in = in;
        one->out = out;
        other->in = other_in;
        other->out = other_out;
    } while (!stopped);
    return stopped;
}

/* One sequence of any shape: 0, 1 behind the last one, -1 where it is refused or there is no room. */
static int kseg_lz4_sequence(struct kseg_lz4_block *block) {
    const uint8_t *in = block->in, *const end = block->end;
    uint8_t *out = block->out;
    uint32_t token;
    size_t literals, size, distance;
    if (in >= end) return -1;
    token = *in++;
    literals = token >> 4;
    if (literals == 15 && (end - in < 15 || !kseg_lz4_length(&in, end - 15, &literals))) return -1;
    if (literals == (size_t)(end - in)) {
        if (literals > (size_t)(block->limit - out)) return -1;
        memcpy(out, in, literals);
        block->out = out + literals;
        return 1;
    }
    if ((size_t)(end - in) < 8 || literals > (size_t)(end - in) - 8) return -1;
    if ((size_t)(block->limit - out) < 12 || literals > (size_t)(block->limit - out) - 12) return -1;
    memcpy(out, in, literals);
    in += literals;
    out += literals;
    distance = kseg_le16(in);
    in += 2;
    size = token & 15;
    if (size == 15 && !kseg_lz4_length(&in, end - 4, &size)) return -1;
    size += 4;
    if (distance == 0 || distance > (size_t)(out - block->start)) return -1;
    if (size > (size_t)(block->limit - out) - 5) return -1;
    kseg_repeat(out, distance, size);
    block->in = in;
    block->out = out + size;
    return 0;
}

/* All that is left of a block: how many bytes it holds, -1 where it is refused or holds more than there is room for. */
static ptrdiff_t kseg_lz4_rest(struct kseg_lz4_block *block) {
    int ended;
    do {
        kseg_lz4_steps(block);
        ended = kseg_lz4_sequence(block);
    } while (!ended);
    return ended < 0 ? -1 : block->out - block->start;
}

/* The bytes that two blocks hold, of which the first one is full; -1 where that is not so, or either is refused. */
static ptrdiff_t kseg_lz4_two(struct kseg_lz4_block *first, struct kseg_lz4_block *second) {
    struct kseg_lz4_block *stopped;
    int ended = 0;
    while (!ended && (stopped = kseg_lz4_steps_in_turns(first, second))) ended = kseg_lz4_sequence(stopped);
    if (ended < 0) return -1;
    if (!(ended && stopped == first) && kseg_lz4_rest(first) < 0) return -1;
    if (!(ended && stopped == second) && kseg_lz4_rest(second) < 0) return -1;
    return first->out == first->limit ? second->out - first->start : -1;
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

/* The size of the compressed block whose size field is at `at`; 0 where there is none, or a wrong one. */
static size_t kseg_lz4_compressed(const uint8_t *p, size_t n, size_t at, size_t largest, size_t checksum_bytes) {
    size_t size;
    if (n - at < 4) return 0;
    size = kseg_le32(p + at);
    at += 4;
    if (size > largest || size > n - at || checksum_bytes > n - at - size) return 0;
    if (checksum_bytes && kseg_xxh32(p + at, size) != kseg_le32(p + at + size)) return 0;
    return size;
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
            const size_t behind = at + size + checksum_bytes, tight = room < largest ? room : largest;
            const size_t next = room > largest ? kseg_lz4_compressed(p, n, behind, largest, checksum_bytes) : 0;
            struct kseg_lz4_block first = {p + at, p + at + size, out + made, out + made + tight, out + made};
            ptrdiff_t held = -1;
            if (next) {
                uint8_t *const start = first.limit;
                const uint8_t *const in = p + behind + 4;
                const size_t left = room - largest < largest ? room - largest : largest;
                struct kseg_lz4_block second = {in, in + next, start, start + left, start};
                held = kseg_lz4_two(&first, &second);
            }
            if (held >= 0) {
                at = behind + 4;
                size = next;
            } else {
                first.in = p + at;
                first.out = first.start;
                held = kseg_lz4_rest(&first);
            }
            if (held < 0) return room < largest ? KSEG_EXPAND_NO_ROOM : KSEG_EXPAND_REFUSED;
            made += (size_t)held;
        }
        at += size + checksum_bytes;
    }
    /* Kafka reads the checksum of the content and does not verify it. */
    return n - at == (p[4] & 0x04 ? 4 : 0) ? (ptrdiff_t)made : KSEG_EXPAND_REFUSED;
}

#endif
